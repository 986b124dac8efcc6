"""What commands print: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 200
"""Columns when the output is no terminal: nothing is cut for want of room."""
_STEERING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters but line break and tab
    "\\u202a-\\u202e\\u2066-\\u2069"  # these reorder what stands beside them (CVE-2021-42574)
    "\\ud800-\\udfff]"  # halves of surrogate pairs can not be written
)


def output_console() -> Console:
    """Standard output. Colour only on a terminal, and not under NO_COLOR."""
    return _console(to_stderr=False)


def progress_console() -> Console:
    """Standard error, for progress and remarks."""
    return _console(to_stderr=True)


def print_json(document: Any) -> None:
    """Prints one JSON document, with what could steer a terminal escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Prints rows under headings, or the line `empty` when there are none.

    Columns whose cells are numbers are set to the right.
    """
    if not rows:
        click.echo(empty)
        return
    output_console().print(make_table(columns, rows))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Builds a table; None is shown as a dash."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def counted(number: int, noun: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Drops control characters, so that text from elsewhere cannot steer the terminal."""
    return _STEERING.sub("", text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return printable(str(value))


def _console(*, to_stderr: bool) -> Console:
    console = Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    return console
