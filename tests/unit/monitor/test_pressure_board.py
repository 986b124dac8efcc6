"""The board: watchers see the current pressure at once, every change, and it again meanwhile."""

from __future__ import annotations

import asyncio

from services.monitor.device_pressure import Pressure
from services.monitor.dimension import DimensionState
from services.monitor.pressure import PressureLevel, Reading
from services.monitor.pressure_board import PressureBoard

NEVER_S = 3600.0


def pressure(level=PressureLevel.UNKNOWN, celsius=0.0):
    return Pressure(
        temperature=DimensionState(
            level=level, reading=Reading(sensor="s", judged=celsius, shown=celsius)
        ),
        memory=DimensionState(),
        battery=DimensionState(),
    )


async def test_a_watcher_sees_the_current_pressure_at_once_then_changes():
    board = PressureBoard(pressure())
    watch = board.watch(NEVER_S)
    assert await anext(watch) == pressure()
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    board.show(pressure(celsius=41.0))  # another reading at the same level is no change
    await asyncio.sleep(0)
    assert not coming.done()
    hot = pressure(PressureLevel.CRITICAL, 61.0)
    board.show(hot)
    assert await coming == hot


async def test_silence_is_filled_with_the_newest_reading():
    board = PressureBoard(pressure())
    watch = board.watch(0.001)
    await anext(watch)
    newer = pressure(celsius=41.0)
    board.show(newer)
    assert await anext(watch) == newer
    assert await anext(watch) == newer


async def test_a_slow_watcher_skips_to_the_newest():
    board = PressureBoard(pressure())
    watch = board.watch(NEVER_S)
    await anext(watch)
    for level in PressureLevel:
        board.show(pressure(level))
    assert (await anext(watch)).temperature.level is PressureLevel.CRITICAL
    board.close()
    assert [seen async for seen in watch] == []


async def test_closing_ends_a_watch_that_waits():
    board = PressureBoard(pressure())
    watch = board.watch(NEVER_S)
    await anext(watch)
    coming = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    board.close()
    assert await coming is None
