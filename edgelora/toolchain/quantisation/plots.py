"""The pictures of a calibrated rounding: SVG, the same bytes for the same figures."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from edgelora.toolchain.picture_style import STYLE
from edgelora.toolchain.quantisation.products import EMBEDDING, HEAD
from edgelora.toolchain.quantisation.report import QuantisationReport

_SIZE_INCHES = (7.2, 3.6)


def draw(report: QuantisationReport) -> dict[str, str]:
    """`quantisation_sensitivity.svg`, `_bits.svg` and `_perplexity.svg`: name -> SVG.

    The first is left out where every matrix stays as it is: no sensitivity was measured.
    """
    with mpl.rc_context(STYLE):
        drawn = {"bits": _bits(report), "perplexity": _perplexity(report)}
        if report.sensitivity:
            drawn["sensitivity"] = _sensitivity(report)
        pictures = {}
        for name, figure in drawn.items():
            figure.tight_layout()
            text = io.StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None})
            pictures[f"quantisation_{name}.svg"] = text.getvalue()
    return pictures


def _figure(title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=_SIZE_INCHES)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11)
    return figure, axes


def _sensitivity(report: QuantisationReport) -> Figure:
    figure, axes = _figure("KL divergence when one matrix alone is 4-bit")
    modules: dict[str, list[tuple[int, float]]] = {}
    for name, value in report.sensitivity.items():
        parts = name.split(".")
        if name in (EMBEDDING, HEAD):
            axes.axhline(value, linestyle=":", label=parts[-2])
        else:
            modules.setdefault(parts[-2], []).append((int(parts[2]), value))
    for module, points in modules.items():
        axes.plot(*zip(*sorted(points), strict=True), marker=".", linewidth=1, label=module)
    axes.set_yscale("log")
    axes.set_xlabel("layer")
    axes.set_ylabel("nats a token")
    axes.legend(fontsize=7, ncols=3)
    return figure


def _bits(report: QuantisationReport) -> Figure:
    figure, axes = _figure("Bits a weight of each product")
    sites: dict[str, list[tuple[int, float]]] = {}
    for product in report.products:
        parts = product.name.split(".")
        if len(parts) == 3:
            sites.setdefault(parts[2], []).append((int(parts[1]), product.bits_per_weight))
        else:
            axes.axhline(product.bits_per_weight, linestyle=":", label=product.name)
    for site, points in sites.items():
        axes.step(*zip(*sorted(points), strict=True), where="mid", label=site)
    axes.set_xlabel("layer")
    axes.set_ylabel("bits")
    axes.legend(fontsize=7, ncols=3)
    return figure


def _perplexity(report: QuantisationReport) -> Figure:
    held_out = report.held_out
    figure, axes = _figure(f"Held-out perplexity; KL divergence {held_out.divergence:.4f} nats")
    values = (held_out.perplexity_before, held_out.perplexity_after)
    bars = axes.bar(("before", "after"), values, color=("#475569", "#c2410c"), width=0.5)
    axes.bar_label(bars, fmt="%.3f")
    return figure
