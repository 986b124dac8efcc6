"""What `doctor` says of the sensors of devices good and bad."""

from __future__ import annotations

import sys

import pytest

from edgelora.cli.device_checks import Level
from edgelora.cli.sensor_checks import sensor_findings
from tests.support.fake_sysfs import FakeSysfs
from tests.support.standin_nvml import StandinNvml


@pytest.fixture
def sysfs(tmp_path):
    return FakeSysfs(tmp_path / "root")


@pytest.fixture
def look(sysfs):
    """Looks at the device; name -> (level, text)."""

    def at(**environ):
        found = sensor_findings(sysfs.root, environ)
        return {finding.name: (finding.level, finding.text) for finding in found}

    return at


def test_the_sensors_that_count_are_named_hottest_first(look, sysfs):
    for index, celsius in enumerate([41, 47, 44, 39, 38]):
        sysfs.add_zone(index, f"cpu{index}-thermal", celsius * 1000)
    sysfs.add_monitor(0, "nvme", 80000)
    assert look()["temperature"] == (
        Level.OK,
        "cpu1_thermal 47 °C, cpu2_thermal 44 °C, cpu0_thermal 41 °C, cpu3_thermal 39 °C and 1 more"
        "; 1 sensor of other parts",
    )


def test_no_sensor_is_unknown_never_cool_and_says_what_that_means_N01(look):
    found = look()
    for name in ("temperature", "memory in use", "battery"):
        level, text = found[name]
        assert level is Level.UNKNOWN
        assert "unknown, taken as cautious (EDGELORA_SCHEDULER_" in text
        assert "0 " not in text
    assert found["frequency"][0] is found["memory stalls"][0] is Level.UNKNOWN
    assert "GPU" not in found
    assert "unreadable" not in found


def test_the_operators_meaning_of_unknown_is_told(look):
    text = look(EDGELORA_SCHEDULER_BATTERY_UNKNOWN="critical")["battery"][1]
    assert "taken as critical (EDGELORA_SCHEDULER_BATTERY_UNKNOWN)" in text


def test_a_sensor_with_an_unusual_name_can_be_chosen_N10(look, sysfs):
    sysfs.add_monitor(0, "board", 52000)
    level, text = look()["temperature"]
    assert level is Level.UNKNOWN
    assert "of 1 other sensor one may be named in EDGELORA_MONITOR_PROCESSOR_ZONES" in text
    assert look(EDGELORA_MONITOR_PROCESSOR_ZONES="board*")["temperature"] == (
        Level.OK,
        "board 52 °C",
    )


def test_sensors_that_give_nothing_are_named_N03(look, sysfs, capsys):
    sensor = sysfs.add_zone(0, "cpu-thermal", "N/A")
    assert look()["unreadable"] == (
        Level.UNKNOWN,
        f"sensors that give nothing: {sensor} (not a plausible number)",
    )
    assert capsys.readouterr().out == ""


def test_memory_and_clock_rates(look, sysfs):
    sysfs.set_memory(total_kib=1000, available_kib=580)
    sysfs.set_stall("memory", 3.0)
    sysfs.add_cpu(0, 1_500_000, 2_400_000)
    found = look()
    assert found["memory in use"] == (Level.OK, "42 %")
    assert found["memory stalls"] == (Level.OK, "3 % of the time")
    assert found["frequency"] == (Level.OK, "1.5 GHz now, 2.4 at most")


def test_a_battery_is_found_among_other_supplies(look, sysfs):
    sysfs.add_supply("AC", type="Mains", online=1)
    assert look()["battery"] == (Level.OK, "none: mains power")
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Not charging")
    assert look()["battery"] == (Level.OK, "57 %, not charging (battery)")


def test_a_phones_battery_is_found(look, tmp_path):
    program = tmp_path / "termux-battery-status"
    program.write_text("""#!/bin/sh\necho '{"percentage": 18, "status": "DISCHARGING"}'\n""")
    program.chmod(0o755)
    found = look(EDGELORA_MONITOR_TERMUX_COMMAND=str(program))
    assert found["battery"] == (Level.OK, "18 %, discharging (termux_battery)")


def test_gpus_are_named(look, sysfs, monkeypatch):
    sysfs.write("proc/driver/nvidia/version", "NVRM version: ...")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia]" in look()["GPU"][1]
    monkeypatch.setitem(sys.modules, "pynvml", StandinNvml({"name": "NVIDIA H200", "celsius": 41}))
    found = look()
    assert found["GPU 0"] == (Level.OK, "NVIDIA H200, 41 °C")
    assert found["temperature"] == (Level.OK, "gpu0_nvidia_h200 41 °C")
