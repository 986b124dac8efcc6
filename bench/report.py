"""Prints a benchmark's JSON object as tables for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_MAX_COLUMNS = 7
_COLOURS = {"holds": "green", "missed": "red", "not measured": "yellow"}
RAW = "runs"
"""Figures of single rounds: for JSON only."""


def print_report(document: dict[str, Any], console: Console) -> None:
    """Prints machine, results and targets."""
    machine = document["machine"]
    console.print(
        f"[bold]{document['bench']}[/bold]  {machine['cpu']}, {machine['cores']} cores, "
        f"torch {machine['torch']}, commit {(document['commit'] or 'unknown')[:12]}",
        highlight=False,
    )
    if document.get("settings"):
        console.print(f"settings: {text(document['settings'])}", highlight=False)
    figures = Table("figure", "value", show_edge=False)
    for name, value in document["results"].items():
        if is_table(value) or name == RAW:
            continue
        for row_name, row_value in flatten(name, value):
            figures.add_row(row_name, text(row_value))
    if figures.row_count:
        console.print(figures)
    for name, value in document["results"].items():
        if is_table(value):
            console.print(_table(name, value))
    targets = Table("target", "wanted", "measured", "", show_edge=False)
    for target in document["targets"]:
        word = verdict(target)
        styled = f"[{_COLOURS[word]}]{word}[/]"
        targets.add_row(target["name"], target["target"], text(target["value"]), styled)
    if targets.row_count:
        console.print(targets)


def verdict(target: dict[str, Any]) -> str:
    """Whether a target was reached."""
    if target["value"] is None:
        return "not measured"
    return "holds" if target["ok"] else "missed"


def is_table(value: Any) -> bool:
    """Whether a result is a list of flat objects."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def lay_out(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and lines: a line for each row, or on its side when it would be too wide."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    if len(columns) <= _MAX_COLUMNS:
        return columns, [[text(row.get(column)) for column in columns] for row in rows]
    first, *others = columns
    return (
        [first, *(text(row.get(first)) for row in rows)],
        [[column, *(text(row.get(column)) for row in rows)] for column in others],
    )


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    columns, lines = lay_out(rows)
    table = Table(title=name, title_justify="left", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def flatten(name: str, value: Any) -> list[tuple[str, Any]]:
    """A result as lines of name and value, objects inside with dotted names."""
    if not isinstance(value, dict):
        return [(name, value)]
    return [row for key, inner in value.items() for row in flatten(f"{name}.{key}", inner)]


def text(value: Any) -> str:
    """A figure for a person."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(text(inner) for inner in value)
    return str(value)
