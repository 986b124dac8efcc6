"""What the launcher does with signals in each of its phases."""

import asyncio
import os
import signal

import pytest

from edgelora.local_stack.stop_signals import SIGNALS, StopSignals


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_outside_a_loop_each_signal_interrupts_once(number):
    with StopSignals() as stop:
        with pytest.raises(KeyboardInterrupt):
            send(number)
        send(number)  # while it tidies up
        assert stop.received is number


def test_the_handlers_of_before_come_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with StopSignals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


async def outcome(stop, events, before=lambda: None, after=lambda: None):
    """Runs work that lasts until it is cancelled; says what was called."""

    async def work():
        before()
        stop.cancel(
            asyncio.current_task(),
            notice=lambda: events.append("notice"),
            at_once=lambda: events.append("at once"),
        )
        try:
            after()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            send()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            stop.hold()
        send()
        return 0

    async with asyncio.timeout(20):
        return await asyncio.create_task(work())


async def test_inside_a_loop_the_first_cancels_and_the_second_acts_at_once():
    events = []
    with StopSignals() as stop:
        stop.hold()
        assert await outcome(stop, events, after=send) == 0
    assert events == ["notice", "cancelled", "at once"]


async def test_a_signal_before_the_loop_is_not_lost():
    events = []
    with StopSignals() as stop:
        stop.hold()
        assert await outcome(stop, events, before=send) == 0
    assert events == ["notice", "cancelled", "at once"]
