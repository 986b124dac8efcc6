"""Samples the device at a steady pace, whatever its sensors do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from services.chassis.logs import get_logger
from services.monitor.daemon_thread import call_in_daemon_thread
from services.monitor.device_pressure import DevicePressure
from services.monitor.explanation import explain
from services.monitor.growth import MemoryGrowth
from services.monitor.history import History
from services.monitor.last_values import LastValues
from services.monitor.pressure_board import PressureBoard
from services.monitor.reports import Reports
from services.monitor.sample import DeviceSample, ProcessUse

_SUMMARY_INTERVAL_S = 60.0


class Sampler:
    """Takes samples and keeps the pressure board current.

    Sampling and judging are separate loops, so that a sensor that blocks makes the readings stale
    and then unknown, and never keeps an old level alive.
    """

    def __init__(
        self,
        read: Callable[[], DeviceSample],
        last_values: LastValues,
        reports: Reports,
        pressure: DevicePressure,
        history: History,
        board: PressureBoard,
        growth: MemoryGrowth,
        *,
        clock: Callable[[], float],
        interval_s: float,
    ) -> None:
        self._read = read
        self._last_values = last_values
        self._reports = reports
        self._pressure = pressure
        self._history = history
        self._board = board
        self._growth = growth
        self._growing: set[str] = set()
        self._clock = clock
        self._interval_s = interval_s
        self.has_sampled = asyncio.Event()
        """Set with the first sample."""

    async def run(self) -> None:
        """Samples and judges for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat_sample())
            group.create_task(self._repeat_judge())
            group.create_task(self._repeat_summary())

    async def sample(self) -> None:
        """Takes one sample. A probe that fails in a way nobody foresaw costs this one only."""
        try:
            sample = await call_in_daemon_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the monitor outlives every sensor
            get_logger().error("sample_failed", error_type=type(error).__name__)
            return
        now_s = self._clock()
        sample = replace(sample, processes=self._growth.judged(sample.processes, now_s))
        self._tell_growth(sample.processes)
        self._last_values.update(sample, now_s)
        self._history.append(sample, now_s)
        self.has_sampled.set()

    def judge(self) -> None:
        """Derives the pressure from what is known now."""
        now_s = self._clock()
        before = self._board.current.levels
        self._board.show(
            self._pressure.update(self._last_values.at(now_s), self._reports.at(now_s), now_s)
        )
        for dimension, state in self._board.current.dimensions.items():
            if state.level is not before[dimension]:
                get_logger().warning(
                    "pressure_changed",
                    dimension=dimension,
                    before=before[dimension].name,
                    now=state.level.name,
                    sensor=state.sensor,
                    reading=state.reading.shown if state.reading else None,
                    threshold=state.threshold,
                    explanation=explain(dimension, state, now_s),
                )

    def _tell_growth(self, processes: Sequence[ProcessUse]) -> None:
        growing = {process.service for process in processes if process.is_growing}
        for process in processes:
            if process.service in growing - self._growing:
                get_logger().warning(
                    "memory_grows_steadily",
                    name=process.service,
                    pid=process.pid,
                    rss_bytes=process.rss_bytes,
                    growth_bytes_per_hour=round(process.growth_bytes_per_hour or 0.0),
                )
        self._growing = growing

    async def _repeat_sample(self) -> None:
        while True:
            started_s = self._clock()
            await self.sample()
            self.judge()
            elapsed_s = self._clock() - started_s
            await asyncio.sleep(max(0.0, self._interval_s - elapsed_s))

    async def _repeat_judge(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self.judge()

    async def _repeat_summary(self) -> None:
        while True:
            await asyncio.sleep(_SUMMARY_INTERVAL_S)
            since_s = self._clock() - _SUMMARY_INTERVAL_S
            highest = self._history.highest
            get_logger().info(
                "device_summarised",
                max_temperature_celsius=highest(lambda s: s.temperature_celsius, since_s),
                max_memory_used_share=highest(lambda s: s.memory_used_share, since_s),
                max_cpu_utilisation=highest(lambda s: s.cpu_utilisation, since_s),
            )
