"""`python -m bench.page`: writes bench/RESULTS.md and its pictures from bench/results/*.json.

A file NAME.md beside NAME.json holds what there is to say about its figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bench.registry import load_benchmark
from bench.report import RAW, flatten, is_table, lay_out, text, verdict

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = Path("bench/results")
_PAGE = Path("bench/RESULTS.md")
_IMAGES = Path("docs/images")
_SECTIONS = {
    "engine": "Beside other engines",
    "engine-360m": "Beside llama.cpp and OpenVINO, 360M shape",
    "engine-1.7b": "Beside llama.cpp and OpenVINO, 1.7B shape",
    "perplexity": "Perplexity",
    "quant": "Rounding the base model",
    "sampling": "Choosing tokens",
    "worker": "A worker: start, memory, idle",
    "first-token": "First token",
    "doors": "gRPC beside HTTP",
    "constraints": "Structured output",
    "sessions": "Conversations kept warm",
    "end-to-end": "End to end",
    "serve": "Open-loop load",
    "scale": "Many adapters",
    "tiers": "From memory, flash and a remote",
    "loads": "Loading inside a worker",
    "adapters": "The adapter store with 10,000 adapters",
    "codec": "Adapters in few bits",
    "export": "Adapters taken along to llama.cpp",
    "classify": "Classifiers beside whole models",
    "warmup": "First responses after a cold start",
    "priority": "Classes beside first come first served",
    "stress": "A heating, draining, filling device",
    "scenario-car": "Scenario: car",
    "scenario-shop": "Scenario: shop",
}
"""Name of the file -> heading, in the order of the page."""
_PICTURES = {
    "engine": ("tokens-per-second.svg", "Tokens a second against the number of adapters"),
    "quant": ("quantisation.svg", "Perplexity against the bytes of the weights"),
    "serve": ("first-token.svg", "Time to the first token against the load"),
    "stress": ("stress.svg", "Tokens a second and first tokens in each phase"),
}
_HEAD = """# Measured results

Made by `make bench-results`, which runs every benchmark of `edgelora bench` on an otherwise idle
machine, and written by `make bench-page` from the JSON in [results](results). `make bench-peers`
builds the engines compared with. Seeds are fixed. A missed target fails nothing.
"""


@click.command()
@click.option("--root", type=click.Path(path_type=Path), default=_ROOT, help="The checkout.")
def main(root: Path) -> None:
    """Writes the page and the pictures of all results that are there."""
    documents = {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name in _SECTIONS
        if (file := root / _RESULTS / f"{name}.json").is_file()
    }
    if not documents:
        raise click.ClickException(f"{_RESULTS} holds no results: run `make bench-results`")
    draw_pictures(documents, root / _IMAGES)
    sections = [
        section(name, document, _remark(root, name)) for name, document in documents.items()
    ]
    (root / _PAGE).write_text("\n".join([_HEAD, *sections]), encoding="utf-8")


def draw_pictures(documents: dict[str, dict[str, Any]], directory: Path) -> None:
    """Draws what there are figures for."""
    # matplotlib is no dependency of the other benchmarks.
    from bench.plots import (
        draw_distinct_adapters,
        draw_first_token,
        draw_phases,
        draw_quantisation,
    )

    directory.mkdir(parents=True, exist_ok=True)
    for name, draw in (
        ("engine", draw_distinct_adapters),
        ("quant", draw_quantisation),
        ("serve", draw_first_token),
        ("stress", draw_phases),
    ):
        if name in documents:
            draw(documents[name], directory / _PICTURES[name][0])


def section(name: str, document: dict[str, Any], remark: str | None) -> str:
    """Returns the Markdown of one result: command, machine, figures, targets."""
    command = name.replace("engine-", "engine --shape ").replace("scenario-", "scenario ")
    machine = document["machine"]
    about = (load_benchmark(document["bench"]).__doc__ or "").partition("\n\n")[2].strip()
    lines = [
        f"## {_SECTIONS[name]}",
        "",
        f"`edgelora bench {command}`{' --quick' if document['quick'] else ''}; {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"commit {(document['commit'] or 'unknown')[:12]}.",
        "",
        about,
        "",
    ]
    if document.get("settings"):
        lines += [f"Settings: {text(document['settings'])}.", ""]
    if name in _PICTURES:
        file, words = _PICTURES[name]
        lines += [f"![{words}](../{_IMAGES}/{file})", ""]
    lines += _figures(document["results"])
    if document["targets"]:
        rows = [
            [one["name"], one["target"], text(one["value"]), verdict(one)]
            for one in document["targets"]
        ]
        lines += [*_table(["target", "wanted", "measured", ""], rows), ""]
    if remark is not None:
        lines += [remark.strip(), ""]
    return "\n".join(lines)


def _figures(results: dict[str, Any]) -> Iterator[str]:
    single = [
        [row_name, text(row_value)]
        for name, value in results.items()
        if not is_table(value) and name != RAW
        for row_name, row_value in flatten(name, value)
    ]
    if single:
        yield from [*_table(["figure", "value"], single), ""]
    for name, value in results.items():
        if is_table(value):
            yield from [f"{name}:", "", *_table(*lay_out(value)), ""]


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *rows)]


def _remark(root: Path, name: str) -> str | None:
    file = root / _RESULTS / f"{name}.md"
    return file.read_text(encoding="utf-8") if file.is_file() else None


if __name__ == "__main__":
    main()
