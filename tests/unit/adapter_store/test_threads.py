"""Blocking work never outlives its caller."""

import asyncio
import threading

import pytest

from services.adapter_store.threads import in_thread


async def test_result_and_error_come_back():
    assert await in_thread(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_caller_waits_for_the_function(fails):
    started, go_on = threading.Event(), threading.Event()
    ended = []

    def work() -> None:
        started.set()
        go_on.wait()
        ended.append(True)
        if fails:
            raise OSError

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
