"""The scheduler's settings."""

from __future__ import annotations

import pytest

from services.chassis.settings import ConfigError
from services.scheduler.config import SchedulerConfig
from services.scheduler.request import Priority


@pytest.fixture
def environ(tmp_path):
    key = tmp_path / "seal.key"
    key.write_bytes(b"k" * 32)
    return {
        "EDGELORA_SCHEDULER_ADDRESS": "unix:/run/s.sock",
        "EDGELORA_SCHEDULER_STORE_ADDRESS": "unix:/run/a.sock",
        "EDGELORA_SCHEDULER_MONITOR_ADDRESS": "unix:/run/m.sock",
        "EDGELORA_SCHEDULER_WORKERS": "cpu0=unix:/run/i0.sock, cpu1=localhost:7000",
        "EDGELORA_SCHEDULER_SEAL_KEY_FILE": str(key),
    }


def test_defaults(environ):
    config = SchedulerConfig.from_env(environ)
    assert config.workers == {"cpu0": "unix:/run/i0.sock", "cpu1": "localhost:7000"}
    assert config.max_running_per_worker == 16
    assert config.lease_s == 10.0
    assert config.ticket_s == 30.0
    assert config.limits.aging_s == {Priority.BACKGROUND: 5.0, Priority.BATCH: 15.0}
    assert "kkkk" not in repr(config)


@pytest.mark.parametrize("workers", ["cpu0", "=unix:/x", "cpu0=", "a=unix:/x,a=unix:/y"])
def test_workers_that_can_not_be_read(environ, workers):
    environ["EDGELORA_SCHEDULER_WORKERS"] = workers
    with pytest.raises(ConfigError, match="WORKERS must be name=address"):
        SchedulerConfig.from_env(environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRESSURE_SILENCE", "1s"),
        ("LEASE", "0s"),
        ("LEASE", "9" * 400 + "s"),
        ("HEARTBEAT", "0"),
        ("STORE_TIMEOUT", "0ms"),
    ],
)
def test_durations_that_nothing_could_work_with(environ, name, value):
    environ[f"EDGELORA_SCHEDULER_{name}"] = value
    with pytest.raises(ConfigError, match=rf"{name} must be from [0-9.]+ to 100000000 seconds"):
        SchedulerConfig.from_env(environ)


def test_every_mistake_is_reported():
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_env(
            {"EDGELORA_SCHEDULER_LEASE": "soon", "EDGELORA_SCHEDULER_COLOUR": "blue"}
        )
    for name in ("ADDRESS", "STORE_ADDRESS", "WORKERS", "SEAL_KEY_FILE", "LEASE", "COLOUR"):
        assert f"EDGELORA_SCHEDULER_{name}" in str(caught.value)


def test_workers_of_either_task_are_enough(environ):
    del environ["EDGELORA_SCHEDULER_WORKERS"]
    environ["EDGELORA_SCHEDULER_ENCODER_WORKERS"] = "enc0=unix:/run/e0.sock"
    config = SchedulerConfig.from_env(environ)
    assert config.workers == {}
    assert config.encoder_workers == {"enc0": "unix:/run/e0.sock"}


def test_workers_of_both_tasks_have_names_of_their_own(environ):
    environ["EDGELORA_SCHEDULER_ENCODER_WORKERS"] = "cpu0=unix:/run/e0.sock"
    with pytest.raises(ConfigError, match="ENCODER_WORKERS must not use a name of"):
        SchedulerConfig.from_env(environ)
