"""A fake device read by the real probes under a fake clock."""

from __future__ import annotations

import pytest

from services.monitor.config import MonitorConfig
from services.monitor.device import Device
from services.monitor.device_pressure import DevicePressure
from services.monitor.probes.sensor_files import SensorFiles
from tests.support.fake_clock import FakeClock
from tests.support.fake_sysfs import FakeSysfs


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def sysfs(tmp_path):
    return FakeSysfs(tmp_path / "root")


@pytest.fixture
def files(sysfs, clock):
    return SensorFiles(sysfs.root, clock, sysfs.read)


@pytest.fixture
def environ(tmp_path):
    """What the monitor cannot start without."""
    key_file = tmp_path / "seal.key"
    key_file.write_text("0123456789abcdef" * 4)
    return {
        "EDGELORA_MONITOR_ADDRESS": "unix:/run/m.sock",
        "EDGELORA_MONITOR_SEAL_KEY_FILE": str(key_file),
    }


@pytest.fixture
def config(environ):
    return MonitorConfig.from_env(environ)


@pytest.fixture
def pressure_of(config, clock):
    """The pressure of a sample, and of what outside sources report, with no past."""

    def of(sample, reports=None):
        fresh = DevicePressure(config.thresholds, config.reported_zones, clock())
        return fresh.update(sample, reports or {}, clock())

    return of


@pytest.fixture
def device(files, clock, config):
    return Device(
        files,
        processor_names=config.processor_zones,
        fallback_names=config.fallback_zones,
        run_directory=None,
        termux=None,
        clock=clock,
    )
