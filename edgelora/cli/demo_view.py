"""Shows the demonstration: four live panels on a terminal, lines with a name elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

from edgelora.cli.demo_run import StreamResult
from edgelora.cli.output import make_table, printable

_PANEL_LINES = 11
_COLOURS = ("cyan", "green", "yellow", "magenta")
_REFRESHES_PER_S = 12


class DemoView:
    """Takes the pieces of all streams."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._live: Live | None = None
        self._results: list[StreamResult] = []
        self._open_lines: dict[str, str] = {}

    def preparing(self, note: str) -> None:
        """Says what is being made ready."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(f"Registering  {note}")

    def started(self, results: list[StreamResult]) -> None:
        """Opens the panels."""
        self._end_status()
        self._results = results
        if self._console.is_terminal:
            self._live = Live(
                self._panels(), console=self._console, refresh_per_second=_REFRESHES_PER_S
            )
            self._live.start()

    def changed(self, result: StreamResult, piece: str) -> None:
        """Shows more of one stream."""
        if self._live is not None:
            self._live.update(self._panels())
            return
        *lines, rest = (self._open_lines.get(result.tenant, "") + printable(piece)).split("\n")
        for line in lines:
            self._print_line(result, line)
        self._open_lines[result.tenant] = rest

    def ended(self) -> None:
        """Closes what is open; the text stays on the screen."""
        self._end_status()
        if self._live is not None:
            self._live.update(self._panels())
            self._live.stop()
            self._live = None
        for result in self._results:
            if rest := self._open_lines.pop(result.tenant, ""):
                self._print_line(result, rest)

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print_line(self, result: StreamResult, line: str) -> None:
        if line:
            self._console.print(f"{result.tenant}/{result.adapter} | {line}", soft_wrap=True)

    def _panels(self) -> Group | Columns:
        is_wide = self._console.width >= 100
        width = self._console.width // 2 if is_wide else self._console.width
        panels = [
            _panel(result, colour, width)
            for result, colour in zip(self._results, _COLOURS, strict=False)
        ]
        return Columns(panels, padding=0) if is_wide else Group(*panels)


def _panel(result: StreamResult, colour: str, width: int) -> Panel:
    text = Text(printable(result.text))
    lines = text.wrap(Console(width=width - 4), width - 4)
    shown = Text("\n").join(lines[-_PANEL_LINES:])
    return Panel(
        shown,
        title=f"{result.tenant} · {result.adapter}",
        title_align="left",
        subtitle=printable(result.prompt)[: width - 6],
        subtitle_align="left",
        border_style=colour,
        width=width,
        height=_PANEL_LINES + 2,
    )


def print_results(console: Console, results: list[StreamResult]) -> None:
    """Prints the table of the demonstration, and what went wrong."""
    rows = [
        (
            result.tenant,
            result.adapter,
            None if result.ttft_s is None else round(result.ttft_s * 1000),
            result.tokens_per_s,
            result.num_tokens,
            None if result.share_of_batch is None else f"{result.share_of_batch:.0%}",
            result.finish_reason or "failed",
        )
        for result in results
    ]
    columns = ("tenant", "adapter", "TTFT ms", "tokens/s", "tokens", "share of batch", "end")
    console.print()
    console.print(make_table(columns, rows))
    console.print(
        "share of batch: a stream's part of the steps it ran in; it need not add up to 100 %",
        style="dim",
    )
    for result in results:
        if result.error is not None:
            console.print(f"{result.tenant}/{result.adapter} failed: {printable(result.error)}")


def results_document(results: Sequence[StreamResult]) -> list[dict[str, object]]:
    """Returns the results for JSON."""
    return [
        {
            "tenant": result.tenant,
            "adapter": result.adapter,
            "digest": result.digest,
            "prompt": result.prompt,
            "text": result.text,
            "num_tokens": result.num_tokens,
            "ttft_ms": None if result.ttft_s is None else round(result.ttft_s * 1000, 1),
            "tokens_per_s": _rounded(result.tokens_per_s, 2),
            "share_of_batch": _rounded(result.share_of_batch, 4),
            "mean_batch_size": _rounded(result.mean_batch_size, 3),
            "finish_reason": result.finish_reason,
            "error": result.error,
        }
        for result in results
    ]


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
