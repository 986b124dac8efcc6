"""The monitor's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.chassis.settings import ConfigError
from services.monitor.config import MonitorConfig


def test_defaults(config):
    assert config.root == Path("/")
    assert config.run_directory is None
    assert (config.interval_s, config.hold_s) == (1.0, 3.0)
    assert config.thresholds.temperature.elevated == 45.0
    assert config.thresholds.temperature.critical == 60.0
    assert config.thresholds.memory.critical == 0.85
    assert config.thresholds.battery.elevated == 0.20
    assert "coretemp*" in config.processor_zones


def test_every_threshold_can_be_set(environ):
    config = MonitorConfig.from_env(
        {
            **environ,
            "EDGELORA_MONITOR_TEMPERATURE_ELEVATED": "70",
            "EDGELORA_MONITOR_TEMPERATURE_CRITICAL": "85",
            "EDGELORA_MONITOR_BATTERY_ELEVATED": "0.5",
            "EDGELORA_MONITOR_PROCESSOR_ZONES": "my-zone, other*",
            "EDGELORA_MONITOR_DWELL": "1m",
            "EDGELORA_MONITOR_MEMORY_STALL_DWELL": "5s",
            "EDGELORA_MONITOR_MEMORY_STALL_ELEVATED": "0.3",
            "EDGELORA_MONITOR_REPORTED_ZONES": "cargo",
        }
    )
    assert config.thresholds.temperature.critical == 85.0
    assert config.thresholds.battery.elevated == 0.5
    assert config.processor_zones == ["my-zone", "other*"]
    assert config.thresholds.battery.dwell_s == 60.0
    assert config.thresholds.memory_stall.dwell_s == 5.0
    assert config.thresholds.memory_stall.elevated == 0.3
    assert config.reported_zones == ["cargo"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"TEMPERATURE_ELEVATED": "60"}, "TEMPERATURE_ELEVATED must be reached before"),
        ({"BATTERY_CRITICAL": "0.3"}, "BATTERY_ELEVATED must be reached before"),
        ({"BATTERY_CRITICAL": "0.2"}, "BATTERY_ELEVATED must be reached before"),
        ({"MEMORY_STALL_CRITICAL": "0.05"}, "MEMORY_STALL_ELEVATED must be reached before"),
        ({"MEMORY_CRITICAL": "85"}, "MEMORY_CRITICAL must be a number from 0 to 1"),
        ({"INTERVAL": "0s"}, "INTERVAL must be above 0"),
        ({"HOLD": "500ms"}, "HOLD must be at least"),
        ({"COLOUR": "blue"}, "COLOUR is not a known setting"),
    ],
)
def test_mistakes_are_named(environ, changes, message):
    changed = {f"EDGELORA_MONITOR_{name}": value for name, value in changes.items()}
    with pytest.raises(ConfigError, match=message):
        MonitorConfig.from_env({**environ, **changed})
