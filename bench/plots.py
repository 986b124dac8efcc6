"""The pictures of the results: SVG, the same bytes for the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.engine_cases import DISTINCT
from bench.measure import median
from bench.peers.roster import OURS
from edgelora.toolchain.picture_style import STYLE

_SIZE_INCHES = (7.2, 4.2)
_OURS_COLOUR, _MUTED = "#c2410c", "#475569"
_COLOURS = ("#1d4ed8", "#7c3aed", "#0f766e", "#a16207", "#be185d", "#334155")


def draw_distinct_adapters(document: dict[str, Any], target: Path) -> None:
    """Tokens a second of 8 streams against the number of different adapters among them.

    `document`: what `edgelora bench engine --json` printed. An engine that served the base in
    place of the adapters is dashed.
    """
    results = document["results"]
    served_base = {one["engine"] for one in results["engines"] if one["adapter_applied"] is False}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        colours = iter(_COLOURS)
        for name in (one["engine"] for one in results["engines"]):
            points = [
                (count, median(results["runs"][case.name][name]))
                for count, case in DISTINCT.items()
                if name in results["runs"].get(case.name, {})
            ]
            if not points:
                continue
            is_ours = name == OURS
            colour = _OURS_COLOUR if is_ours else next(colours)
            label = "EdgeLoRA (native)" if is_ours else name
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                color=colour,
                linewidth=2.5 if is_ours else 1.5,
                linestyle="--" if name in served_base else "-",
                label=f"{label}: served the base" if name in served_base else label,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(list(DISTINCT), labels=[str(count) for count in DISTINCT])
        axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        axes.minorticks_off()
        axes.set_yticks([50, 100, 200, 500, 1000, 2000])
        axes.set_xlabel("different adapters among 8 streams")
        axes.set_ylabel("tokens/s, all streams")
        _finish(figure, axes, f"Decoding, {results['model']}", target)


def draw_first_token(document: dict[str, Any], target: Path) -> None:
    """Time to the first token against the load; `document`: of `edgelora bench serve --json`."""
    rows = document["results"]["loads"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        loads = [row["load"] for row in rows]
        for rank, colour in ((99, _MUTED), (90, _COLOURS[0]), (50, _OURS_COLOUR)):
            values = [row[f"ttft_p{rank}_ms"] for row in rows]
            axes.plot(loads, values, marker="o", color=colour, label=f"p{rank}")
        axes.set_ylim(bottom=0)
        axes.set_xticks(loads)
        axes.set_xlabel("requests offered, as a multiple of what one stream at a time achieves")
        axes.set_ylabel("first token, ms")
        count = document["results"]["workload"]["num_adapters"]
        _finish(figure, axes, f"Open-loop load over {count} adapters", target)


def draw_phases(document: dict[str, Any], target: Path) -> None:
    """Throughput and first tokens by phase; `document`: of `edgelora bench stress --json`."""
    rows = document["results"]["phases"]
    places = range(len(rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        above.bar(places, [row["tokens_per_s"] for row in rows], color=_MUTED, label="tokens/s")
        above.set_ylabel("tokens/s")
        waits = [row["first_token_p50_ms"] for row in rows]
        # A phase in which nobody was answered has no bar.
        below.bar(places, [wait or 0.0 for wait in waits], color=_OURS_COLOUR, label="first token")
        below.set_ylabel("first token, p50, ms")
        below.set_xticks(list(places), labels=[row["phase"] for row in rows], rotation=60)
        _finish(figure, above, "A device that heats up, drains and fills its memory", target)


def draw_quantisation(document: dict[str, Any], target: Path) -> None:
    """Perplexity against bytes; `document`: of `edgelora bench quant --json`.

    A picture for each model; the line is the unquantised one.
    """
    rows = document["results"]["perplexity"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        pictures = figure.subplots(1, len(models), squeeze=False)[0]
        for model, axes in zip(models, pictures, strict=True):
            for row in (row for row in rows if row["model"] == model):
                if row["megabytes"] is None:
                    axes.axhline(row["first"], color=_MUTED, linewidth=1)
                elif row["weights"] != "bfloat16":
                    colour = _OURS_COLOUR if row["engine"] == OURS else _COLOURS[0]
                    place = (row["megabytes"], row["first"])
                    axes.plot(*place, marker="o", color=colour)
                    axes.annotate(
                        row["weights"],
                        place,
                        xytext=(0, 6),
                        textcoords="offset points",
                        ha="center",
                        fontsize=8,
                        color=colour,
                    )
            axes.set_title(model, loc="left", fontsize=10)
            axes.margins(x=0.3, y=0.15)
            axes.set_xlabel("MB of weights")
        pictures[0].set_ylabel("perplexity")
        figure.savefig(target, format="svg", metadata={"Date": None})


def _finish(figure: Figure, axes: Any, title: str, target: Path) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside right upper", frameon=False)
    # Without a date, so that a picture changes only with its figures.
    figure.savefig(target, format="svg", metadata={"Date": None})
