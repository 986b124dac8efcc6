"""The scheduler's view of the monitor, over real gRPC, through silence and restarts."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from google.protobuf.duration_pb2 import Duration

from edgelora.v1 import monitor_service_pb2 as pb
from services.chassis.sealing import boot_clock_s
from services.scheduler.pressure.device import DeviceState, Dimension, PressureLevel
from services.scheduler.pressure.messages import restriction_message
from services.scheduler.pressure.policy import restrict
from services.scheduler.pressure.watch import MonitorWatch
from tests.support.pressures import make_settings
from tests.support.standin_monitor import StandinMonitor, host_monitor

UNKNOWN, NORMAL, ELEVATED, CRITICAL = PressureLevel


class Watched:
    """A monitor that can come and go, and everything the watch has shown."""

    def __init__(self, address, stack):
        self.address = address
        self.stack = stack
        self.monitor = StandinMonitor()
        self.states = asyncio.Queue()

    async def start(self):
        self.running = AsyncExitStack()
        host = host_monitor(self.monitor, self.address)
        await self.running.enter_async_context(host.serving())
        self.stack.push_async_callback(self.stop)

    async def stop(self):
        self.monitor.cut()
        await self.running.aclose()

    async def until(self, **levels):
        while True:
            state = await self.states.get()
            if all(state[Dimension(name)].level is level for name, level in levels.items()):
                return state


@pytest.fixture
async def watched(tmp_path_factory):
    directory = tmp_path_factory.mktemp("w")
    async with AsyncExitStack() as stack:
        watched = Watched(f"unix:{directory}/m.sock", stack)
        watch = MonitorWatch(
            watched.address, watched.states.put_nowait, boot_clock_s, silence_s=1.0
        )
        task = asyncio.create_task(watch.run())
        stack.callback(task.cancel)
        yield watched


async def test_the_state_arrives_at_once_and_with_every_change(watched):
    await watched.start()
    state = await watched.until(temperature=NORMAL, memory=NORMAL, battery=NORMAL)
    assert state.temperature.reading is None
    watched.monitor.tell("temperature", "ELEVATED", 47.0, held_s=12.0)
    state = await watched.until(temperature=ELEVATED, memory=NORMAL)
    assert state.temperature.reading == 47.0
    assert state.temperature.sensor == "sensor"
    assert state.temperature.since_s <= boot_clock_s() - 12.0


async def test_a_monitor_that_says_nothing_leaves_all_unknown_F07(watched):
    await watched.start()
    await watched.until(memory=NORMAL)
    watched.monitor.is_silent = True
    before_s = boot_clock_s()
    state = await watched.until(temperature=UNKNOWN, memory=UNKNOWN, battery=UNKNOWN)
    assert state.memory.since_s >= before_s
    watched.monitor.is_silent = False
    await watched.until(temperature=NORMAL, memory=NORMAL, battery=NORMAL)


async def test_a_monitor_that_dies_leaves_all_unknown_and_is_found_again_F06(watched):
    await watched.start()
    watched.monitor.tell("memory", "CRITICAL", 0.9)
    await watched.until(memory=CRITICAL)
    await watched.stop()
    await watched.until(temperature=UNKNOWN, memory=UNKNOWN, battery=UNKNOWN)
    await watched.start()
    await watched.until(memory=CRITICAL)


async def test_a_watch_that_ends_is_opened_again(watched):
    await watched.start()
    await watched.until(memory=NORMAL)
    watched.monitor.cut()
    await watched.until(memory=UNKNOWN)
    await watched.until(memory=NORMAL)
    assert watched.monitor.num_watches == 2


def test_what_is_missing_or_strange_is_unknown():
    pressure = pb.DevicePressure(
        temperature=pb.DimensionPressure(level=17, reading=40.0),
        battery=pb.DimensionPressure(
            level=pb.PressureLevel.PRESSURE_LEVEL_NORMAL, reading=float("nan")
        ),
    )
    state = DeviceState.from_message(pressure, 5.0)
    assert state.temperature.level is UNKNOWN
    assert state.memory.level is UNKNOWN
    assert (state.battery.level, state.battery.reading) == (NORMAL, None)


@pytest.mark.parametrize("held_s", [2**63 - 1, -(2**63), 10**6, -10])
@pytest.mark.parametrize("reading", [float("inf"), -1e300, 1e300])
def test_an_absurd_past_or_reading_still_makes_a_sentence(held_s, reading):
    heat = pb.DimensionPressure(
        level=pb.PressureLevel.PRESSURE_LEVEL_CRITICAL,
        held=Duration(seconds=held_s),
        reading=reading,
    )
    now_s = 5.0
    state = DeviceState.from_message(pb.DevicePressure(temperature=heat), now_s)
    assert 0.0 <= state.temperature.since_s <= now_s
    restriction = restrict(state, make_settings()).active[0]
    message = restriction_message(restriction, now_s)
    assert message.rule == "temperature_critical"
    assert message.held.ToSeconds() <= now_s
    assert message.explanation.startswith("temperature critical for ")
