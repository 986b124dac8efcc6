"""An Android battery through a real program that prints what Termux:API documents."""

from __future__ import annotations

import asyncio
import json

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from services.monitor.device import Device
from services.monitor.probes.battery import BatteryReading
from services.monitor.probes.termux import TermuxBattery, parse_battery_status
from services.monitor.sample import BatteryState

DOCUMENTED = {
    "present": True,
    "technology": "Li-ion",
    "health": "GOOD",
    "plugged": "UNPLUGGED",
    "status": "DISCHARGING",
    "temperature": 28.6,
    "voltage": 3871,
    "current": -244140,
    "percentage": 18,
    "level": 18,
    "scale": 100,
    "charge_counter": 684000,
    "cycle": 301,
}


def parse(**changes):
    document = {name: value for name, value in (DOCUMENTED | changes).items() if value != "absent"}
    return parse_battery_status(json.dumps(document).encode())


def test_what_is_documented_is_read():
    assert parse() == BatteryReading(
        has_battery=True,
        charge=0.18,
        state=BatteryState.DISCHARGING,
        temperature_celsius=28.6,
        sensor="termux_battery",
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("CHARGING", BatteryState.CHARGING),
        ("FULL", BatteryState.FULL),
        ("NOT_CHARGING", BatteryState.NOT_CHARGING),
        ("UNKNOWN", BatteryState.UNKNOWN),
        ("SOMETHING_NEW", BatteryState.UNKNOWN),
        (2, None),
        ("absent", None),
    ],
)
def test_every_status_has_a_state_N06(status, state):
    assert parse(status=status).state is state


def test_an_empty_battery_has_no_percentage_in_some_versions():
    assert parse(percentage="absent", level=0).charge == 0.0
    assert parse(percentage="absent", level=30, scale=200).charge == 0.15


@pytest.mark.parametrize("celsius", [-214748364.8, 999, "28", None, "absent", True])
def test_an_implausible_temperature_counts_as_missing_N03(celsius):
    assert parse(temperature=celsius).temperature_celsius is None


@pytest.mark.parametrize(
    "changes",
    [
        {"present": False},
        {"percentage": -1, "level": -1},
        {"percentage": 101, "level": "absent"},
        {"percentage": "18", "scale": 0},
        {"percentage": True, "scale": True},
        {"percentage": None, "level": 18, "scale": "absent"},
        {"percentage": -(2**31), "level": 101},
    ],
)
def test_no_plausible_charge_is_no_reading_N08(changes):
    with pytest.raises(ValueError, match="the output"):
        parse(**changes)


@pytest.mark.parametrize(
    "output",
    [b"", b"{", b"[]", b"18", b"null", b"\xff\xfe", b"[" * 16000, b'{"percentage": NaN}'],
)
def test_bad_json_is_no_reading(output):
    with pytest.raises(ValueError):
        parse_battery_status(output)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(DOCUMENTED)), json_values))
def test_any_json_is_a_plausible_reading_or_refused(document):
    try:
        reading = parse_battery_status(json.dumps(document).encode())
    except ValueError:
        return
    assert 0.0 <= reading.charge <= 1.0
    assert reading.temperature_celsius is None or -40.0 <= reading.temperature_celsius <= 150.0


@pytest.fixture
def command(tmp_path):
    """Writes a program; returns its path."""

    def write(script):
        path = tmp_path / "termux-battery-status"
        fresh = path.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.rename(path)
        return str(path)

    return write


def printing(document):
    return f"cat <<'END'\n{json.dumps(document, indent=2)}\nEND"


async def test_a_program_that_prints_it_is_read_once_each_time(command):
    termux = TermuxBattery(command(printing(DOCUMENTED)))
    assert termux.take() is None
    await termux.read()
    assert termux.take() == parse()
    assert termux.take() is None


@pytest.mark.parametrize(
    "script",
    [
        "echo '{\"percentage\": 18'",
        "exit 1",
        f"{printing(DOCUMENTED)}; exit 1",
        "exec cat /dev/zero",
        "kill -9 $$",
    ],
)
async def test_a_program_that_fails_is_no_reading_and_is_logged_once(command, script):
    termux = TermuxBattery(command(script))
    with capture_logs() as logs:
        await termux.read()
        await termux.read()
    assert termux.take() is None
    assert [log["event"] for log in logs] == ["sensor_unreadable"]
    command(printing(DOCUMENTED))
    await termux.read()
    assert termux.take() == parse()


async def test_a_program_that_is_not_there_is_no_reading(tmp_path):
    termux = TermuxBattery(str(tmp_path / "nothing"))
    await termux.read()
    assert termux.take() is None


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_program_that_hangs_ends_with_all_that_it_started(command, tmp_path):
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! > {pids}.new; mv {pids}.new {pids}; sleep 1000"
    termux = TermuxBattery(command(script), limit_s=0.5)
    reading = asyncio.create_task(termux.read())
    while not pids.exists():
        assert not reading.done(), "the limit came before the program had started"
        await asyncio.sleep(0.01)
    assert termux.take() is None  # at once, whatever the program does
    await reading
    assert termux.take() is None
    child = int(pids.read_text())
    while is_running(child):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_stopping_ends_a_program_that_hangs(command, tmp_path):
    started = tmp_path / "started"
    termux = TermuxBattery(
        command(f"echo $$ > {started}.new; mv {started}.new {started}; sleep 1000")
    )
    running = asyncio.create_task(termux.run())
    while not started.exists():  # noqa: ASYNC110 - the file is another process's
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    assert not is_running(int(started.read_text()))


async def test_it_goes_on_after_a_failure(command):
    termux = TermuxBattery(command("exit 1"), period_s=0.01)
    running = asyncio.create_task(termux.run())
    command(printing(DOCUMENTED))
    while (reading := termux.take()) is None:  # noqa: ASYNC110 - the other side is a process
        await asyncio.sleep(0.01)
    assert reading == parse()
    running.cancel()
    await asyncio.wait([running])


@pytest.fixture
def android(files, clock, config, command):
    """A device with Termux."""
    termux = TermuxBattery(command(printing(DOCUMENTED)))
    device = Device(
        files,
        processor_names=config.processor_zones,
        fallback_names=config.fallback_zones,
        run_directory=None,
        termux=termux,
        clock=clock,
    )
    return device, termux


async def test_it_is_used_where_sysfs_has_no_readable_battery(android, sysfs, pressure_of):
    device, termux = android
    for prepare in (
        lambda: None,  # no power supply class
        lambda: sysfs.add_supply("usb", type="USB", online=0),
        lambda: sysfs.add_supply("battery", type="Battery", status="Discharging"),
    ):
        prepare()
        await termux.read()
        sample = device.sample()
        assert (sample.battery_charge, sample.battery_sensor) == (0.18, "termux_battery")
        state = pressure_of(sample).battery
        assert (state.level.name, state.sensor) == ("ELEVATED", "termux_battery")
        assert [zone.name for zone in sample.thermal_zones] == ["termux_battery"]
        assert sample.temperature_celsius is None  # of the battery, not of the processor
    # Between two of its readings sysfs is not believed: it would say that there is no battery.
    assert device.sample().has_battery is None


async def test_sysfs_comes_first_where_it_can_be_read(android, sysfs):
    device, termux = android
    sysfs.add_supply("battery", type="Battery", capacity=57, status="Charging")
    await termux.read()
    sample = device.sample()
    assert (sample.battery_charge, sample.battery_sensor) == (0.57, "battery")
