"""`edgelora device` against a real gateway and a real monitor."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys

import pytest

from edgelora.cli.main import EXIT_USAGE, run

pytestmark = pytest.mark.integration


@pytest.fixture
async def operator(command, capsys):
    """`edgelora device report ...` as the operator; returns what it printed."""

    async def report(*arguments, status=0):
        address = ("--admin-address", command.gateway.address("admin"))
        line = ["device", "report", "--source", "vehicle", *arguments, *address]
        assert await asyncio.to_thread(run, line) == status
        return capsys.readouterr()

    return report


async def shown_when(command, text):
    """What `device show` prints as soon as the pattern is in it; the test's limit ends the wait."""
    while not re.search(text, shown := await command("device", "show")):
        pass
    return shown


async def test_what_a_vehicle_reports_is_shown_until_it_is_withdrawn(command, operator):
    sysfs = command.gateway.start_monitor(HOLD="60s")
    sysfs.add_monitor(0, "coretemp", 41500, label="Package id 0")
    sysfs.add_monitor(1, "nvme", 80000)
    sysfs.add_supply("BAT0", type="Battery", capacity=57, status="Charging", power_now=7_000_000)
    sysfs.set_memory(total_kib=2_000_000, available_kib=1_500_000)
    await command.until_ready("monitor")

    shown = await shown_when(command, "coretemp_package_id_0 at 41.5 °C")
    lines = shown.splitlines()
    assert "sensor    coretemp_package_id_0 41.5 °C" in lines
    assert "sensor    nvme 80.0 °C, does not count" in lines
    assert "battery   57 %, charging, 7.0 W" in lines
    assert "memory    1.5 GB of 2.0 GB free" in lines
    assert any(line.endswith(f"busy, frequency unknown, {os.cpu_count()} cores") for line in lines)

    said = await operator("--battery", "0.18", "--discharging", "--temperature", "cabin=47.5")
    assert said.out.startswith("reported vehicle: ")
    shown = await shown_when(command, "vehicle at 18.0 %, discharging, below 20.0 %")
    assert "vehicle/cabin at 47.5 °C, 45.0 °C or more" in shown
    assert "reports   vehicle" in shown.splitlines()
    document = await command.json("device", "show")
    assert document["pressure"]["battery"]["level"] == "PRESSURE_LEVEL_ELEVATED"
    assert document["pressure"]["battery"]["reading"] == 0.18
    assert document["device"]["reporting_sources"] == ["vehicle"]
    assert "pressure  temperature ELEVATED" in await command("status")

    assert (await operator("--withdraw")).out == "withdrew vehicle\n"
    assert "reports" not in await shown_when(command, "temperature NORMAL")


async def test_without_a_monitor_the_state_is_unknown_and_the_command_fails(command, operator):
    assert await command("device", "show", status=1) == ""
    assert "the monitor does not answer" in command.err
    assert "monitor" in (await operator("--battery", "0.5", status=1)).err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--battery", "18"], "--battery"),
        (["--temperature", "cabin"], "cabin=47.5"),
        (["--temperature", "cabin=1", "--temperature", "cabin=2"], "once"),
        (["--battery", "0.5", "--every", "1h"], "100ms"),
        (["--battery", "0.5", "--every", "0s"], "100ms"),
        (["--battery", "0.5", "--withdraw"], "--withdraw"),
        ([], "--battery, --temperature or --withdraw"),
    ],
)
async def test_wrong_usage_is_explained(operator, arguments, text):
    assert text in (await operator(*arguments, status=EXIT_USAGE)).err


async def test_every_keeps_a_source_alive_until_interrupted(command):
    command.gateway.start_monitor(HOLD="500ms")
    await command.until_ready("monitor")
    address = command.gateway.address("admin")
    reporter = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from edgelora.cli.main import main; main()"),
        *("device", "report", "--source", "vehicle", "--temperature", "cabin=61"),
        *("--every", "100ms", "--admin-address", address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await shown_when(
        command, r"temperature CRITICAL for ([2-9]|\d\d) s"
    )  # four times as long as one counts
    command.gateway.monitor.pause()
    err = await reporter.stderr.readuntil(b"the monitor does not answer")
    command.gateway.monitor.resume()
    await command.until_ready("monitor")
    await shown_when(command, r"temperature CRITICAL for ([2-9]|\d\d) s")
    reporter.send_signal(signal.SIGINT)
    _, rest = await reporter.communicate()
    err += rest
    assert reporter.returncode == 130
    assert b"until Ctrl-C" in err
    await shown_when(command, "vehicle/cabin gives no reading any more")
