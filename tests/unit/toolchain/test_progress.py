"""Progress is a plain line now and then where no terminal is."""

from __future__ import annotations

import io

from rich.console import Console

from edgelora.toolchain import progress
from edgelora.toolchain.progress import _PlainBar, progress_bar
from tests.support.fake_clock import FakeClock


def test_log_gets_plain_lines_without_control_codes() -> None:
    log = io.StringIO()
    with progress_bar("Converting", 10, console=Console(file=log, force_terminal=False)) as bar:
        bar.advance(10)
    assert log.getvalue() == "Converting ...\nConverting: done\n"


def test_log_gets_a_line_at_each_interval_only() -> None:
    log = io.StringIO()
    clock = FakeClock()
    bar = _PlainBar(Console(file=log, force_terminal=False), "Training", 200, clock)
    for _ in range(4):
        clock.advance(progress.PLAIN_INTERVAL_SECONDS / 2)
        bar.advance(20, "loss 1.5")
    assert log.getvalue() == "Training: 20 % loss 1.5\nTraining: 40 % loss 1.5\n"


def test_terminal_gets_a_bar_with_the_note() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160)
    with progress_bar("Training", 4, console=console) as bar:
        bar.advance(4, "loss 0.123")
    assert "Training" in screen.getvalue()
    assert "100%" in screen.getvalue()
    assert "loss 0.123" in screen.getvalue()
