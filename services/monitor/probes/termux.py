"""The battery of an Android device through `termux-battery-status` of Termux:API.

Source: https://github.com/termux/termux-api, BatteryStatusAPI.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from services.chassis.device_report import HIGH_CELSIUS, LOW_CELSIUS
from services.monitor.probes.battery import BatteryReading
from services.monitor.probes.sensor_files import log_unreadable
from services.monitor.sample import BatteryState

SENSOR = "termux_battery"
_MAX_OUTPUT_BYTES = 16 * 1024
_END_S = 1.0
_STATES = {
    "CHARGING": BatteryState.CHARGING,
    "DISCHARGING": BatteryState.DISCHARGING,
    "FULL": BatteryState.FULL,
    "NOT_CHARGING": BatteryState.NOT_CHARGING,
}


class TermuxBattery:
    """Runs the command again and again beside the sampling, so that one that hangs holds up
    nothing. Lives on one event loop; `take` may be called from any thread."""

    def __init__(
        self,
        command: str,
        *,
        limit_s: float = 2.0,
        period_s: float = 2.0,
        on_unreadable: Callable[[str, str], None] = log_unreadable,
    ) -> None:
        self._command = command
        self._limit_s = limit_s
        self._period_s = period_s
        self._on_unreadable = on_unreadable
        self._newest: deque[BatteryReading] = deque(maxlen=1)
        self._failed = False

    def take(self) -> BatteryReading | None:
        """Returns the newest reading, and each one once: how long it counts is not told here."""
        try:
            return self._newest.pop()
        except IndexError:
            return None

    async def run(self) -> None:
        """Reads for ever."""
        while True:
            next_s = time.monotonic() + self._period_s
            await self.read()
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    async def read(self) -> None:
        """Runs the command once."""
        try:
            async with asyncio.timeout(self._limit_s):
                output = await _output_of(self._command)
            self._newest.append(parse_battery_status(output))
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            if not self._failed:
                self._on_unreadable(SENSOR, type(error).__name__)
            self._failed = True
        else:
            self._failed = False


def parse_battery_status(output: bytes) -> BatteryReading:
    """Reads the command's JSON. Raises ValueError when it holds no plausible charge."""
    try:
        document: Any = json.loads(output, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("the output is nested too deeply") from error
    # Without the system's broadcast everything is at its default, and that is "not present".
    if not isinstance(document, dict) or document.get("present") is False:
        raise ValueError("the output describes no battery")
    status = document.get("status")
    return BatteryReading(
        has_battery=True,
        charge=_charge(document),
        state=_STATES.get(status, BatteryState.UNKNOWN) if isinstance(status, str) else None,
        temperature_celsius=_number(document, "temperature", LOW_CELSIUS, HIGH_CELSIUS),
        sensor=SENSOR,
    )


def _charge(document: dict[str, Any]) -> float:
    percent = _number(document, "percentage", 0.0, 100.0)
    if percent is not None:
        return percent / 100.0
    # Some versions leave the percentage out when it is 0.
    scale = _number(document, "scale", 1.0, 1e9)
    level = None if scale is None else _number(document, "level", 0.0, scale)
    if scale is None or level is None:
        raise ValueError("the output holds no charge")
    return level / scale


def _number(document: dict[str, Any], name: str, low: float, high: float) -> float | None:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if low <= value <= high else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError("the output holds a number JSON does not have")


async def _output_of(command: str) -> bytes:
    """Raises OSError when it does not start, ValueError when it fails or says too much."""
    process = await asyncio.create_subprocess_exec(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        await process.stdout.readexactly(_MAX_OUTPUT_BYTES)
    except asyncio.IncompleteReadError as end:
        if await process.wait() != 0:
            raise ValueError("the command failed") from None
        return end.partial
    finally:
        # The command starts others: all of them end.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # one that cannot be killed is left behind
            async with asyncio.timeout(_END_S):
                await process.communicate()
    raise ValueError("the output is too long")
