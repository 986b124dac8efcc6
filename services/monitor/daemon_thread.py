"""Runs blocking reads on threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_in_daemon_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Calls a function on a thread of its own; await the result, or what it raised.

    `asyncio.to_thread` would wait for its thread when the process stops, and a driver that hangs
    would keep the process from ever stopping.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            outcome.set_exception(error)

    threading.Thread(target=work, name="sampler", daemon=True).start()
    return asyncio.wrap_future(outcome)
