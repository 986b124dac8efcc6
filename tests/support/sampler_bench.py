"""A sampler driven by hand over a fake device."""

from __future__ import annotations

from services.monitor.device_pressure import DevicePressure
from services.monitor.growth import MemoryGrowth
from services.monitor.history import History
from services.monitor.last_values import LastValues
from services.monitor.pressure_board import PressureBoard
from services.monitor.reports import Reports
from services.monitor.sampler import Sampler


class SamplerBench:
    """What the monitor is made of, one sample a second of a fake clock."""

    def __init__(self, read, config, clock):
        self.clock = clock
        self.last_values = LastValues(config.hold_s)
        self.reports = Reports(config.hold_s)
        pressure = DevicePressure(config.thresholds, config.reported_zones, clock())
        self.board = PressureBoard(pressure.current)
        self.history = History(5)
        self.sampler = Sampler(
            read,
            self.last_values,
            self.reports,
            pressure,
            self.history,
            self.board,
            MemoryGrowth(config.growth_window_s),
            clock=clock,
            interval_s=1.0,
        )

    async def tick(self):
        """Samples, judges, and moves on by a second."""
        await self.sampler.sample()
        self.sampler.judge()
        self.clock.advance(1.0)

    @property
    def levels(self):
        """Dimension -> level."""
        return self.board.current.levels

    @property
    def now(self):
        """What is known now."""
        return self.last_values.at(self.clock())
