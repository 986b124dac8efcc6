"""A fake device read by the real probes under a fake clock."""

from __future__ import annotations

import pytest

from services.monitor.config import MonitorConfig
from services.monitor.device import Device
from services.monitor.probes.sensor_files import SensorFiles
from tests.support.fake_clock import FakeClock
from tests.support.fake_sysfs import FakeSysfs


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def sysfs(tmp_path):
    return FakeSysfs(tmp_path)


@pytest.fixture
def files(sysfs, clock):
    return SensorFiles(sysfs.root, clock, sysfs.read)


@pytest.fixture
def config():
    return MonitorConfig.from_env({"EDGELORA_MONITOR_ADDRESS": "unix:/run/m.sock"})


@pytest.fixture
def device(files, clock, config):
    return Device(
        files,
        processor_names=config.processor_zones,
        fallback_names=config.fallback_zones,
        run_directory=None,
        clock=clock,
    )
