"""Progress on stderr: a moving bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

PLAIN_INTERVAL_SECONDS = 10.0
"""How often a log that is no terminal gets a line."""


class Bar(Protocol):
    """What long work reports to."""

    def advance(self, amount: int, note: str = "") -> None:
        """Adds `amount` units; `note` is shown beside the bar (for example a loss)."""
        ...


class _Note(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("note", "")))


class _RichBar:
    def __init__(self, progress: Progress, task_id: int) -> None:
        self._progress = progress
        self._task_id = task_id

    def advance(self, amount: int, note: str = "") -> None:
        self._progress.update(self._task_id, advance=amount, note=note)  # type: ignore[arg-type]


class _PlainBar:
    """Writes the share done at most every `PLAIN_INTERVAL_SECONDS`."""

    def __init__(
        self, console: Console, title: str, total: int | None, clock: Callable[[], float]
    ) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._clock = clock
        self._done = 0
        self._written_at = clock()

    def advance(self, amount: int, note: str = "") -> None:
        self._done += amount
        now = self._clock()
        if now - self._written_at >= PLAIN_INTERVAL_SECONDS:
            self._written_at = now
            share = f" {100 * self._done // self._total} %" if self._total else ""
            self._console.print(f"{self._title}:{share} {note}".rstrip(), highlight=False)


@contextmanager
def progress_bar(title: str, total: int | None, *, console: Console | None = None) -> Iterator[Bar]:
    """Shows work of `total` units (None: unknown) on stderr until the block ends."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        console.print(f"{title} ...", highlight=False)
        yield _PlainBar(console, title, total, time.monotonic)
        console.print(f"{title}: done", highlight=False)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        _Note(),
    )
    with Progress(*columns, console=console) as progress:
        yield _RichBar(progress, progress.add_task(title, total=total, note=""))
