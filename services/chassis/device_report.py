"""Checks what an outside source says it has measured. Pure.

Raises InvalidRequestError with the name of the field; never repeats what the caller wrote.
"""

from __future__ import annotations

import re

from edgelora.errors import InvalidRequestError
from edgelora.v1.monitor_service_pb2 import BatteryState, DeviceReport

MAX_TEMPERATURES = 16
LOW_CELSIUS, HIGH_CELSIUS = -40.0, 150.0
"""Outside of it a temperature is a driver's way to say that it has none."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME_RULE = 'must be 1 to 64 letters, digits, "_" or "-"'


def check_device_report(report: DeviceReport) -> None:
    """Checks every field but the expiry."""
    if not _NAME.fullmatch(report.source):
        raise _invalid("source", _NAME_RULE)
    if report.HasField("battery_charge") and not 0.0 <= report.battery_charge <= 1.0:
        raise _invalid("battery_charge", "must be a number from 0 to 1, for example 0.18")
    if report.battery_state not in BatteryState.values():
        raise _invalid("battery_state", "must be one of the states of BatteryState")
    _check_temperatures(report)
    tells = report.HasField("battery_charge") or report.battery_state or report.temperatures
    if report.is_withdrawn and tells:
        raise _invalid("is_withdrawn", "must not come with readings: report, or withdraw")
    if not report.is_withdrawn and not tells:
        raise _invalid("temperatures", "must not be empty when there is no battery either")


def _check_temperatures(report: DeviceReport) -> None:
    if len(report.temperatures) > MAX_TEMPERATURES:
        raise _invalid("temperatures", f"may hold at most {MAX_TEMPERATURES} temperatures")
    seen: set[str] = set()
    for index, temperature in enumerate(report.temperatures):
        field = f"temperatures[{index}]"
        if not _NAME.fullmatch(temperature.name):
            raise _invalid(f"{field}.name", _NAME_RULE)
        if temperature.name in seen:
            raise _invalid(f"{field}.name", "names a temperature again: give each once")
        seen.add(temperature.name)
        if not LOW_CELSIUS <= temperature.temperature_celsius <= HIGH_CELSIUS:
            rule = f"must be {LOW_CELSIUS:g} to {HIGH_CELSIUS:g} degrees Celsius"
            raise _invalid(f"{field}.temperature_celsius", rule)


def _invalid(field: str, rule: str) -> InvalidRequestError:
    field = f"report.{field}"
    return InvalidRequestError(f"{field} {rule}", field=field)
