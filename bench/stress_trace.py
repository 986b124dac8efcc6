"""The trace of the stress benchmark: a device heats up, drains, fills its memory and recovers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.sensor_tree import Device

# With the band of 5 degrees a level of 45 falls below 40.
_CALM = Device(celsius=39.0, charge_percent=60, is_charging=False, memory_share=0.70)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of time in which the sensors do not change."""

    name: str
    device: Device


TRACE: Sequence[Phase] = (
    Phase(name="calm, 39 C", device=_CALM),
    Phase(name="46 C", device=replace(_CALM, celsius=46.0)),
    Phase(name="52 C", device=replace(_CALM, celsius=52.0)),
    Phase(name="61 C", device=replace(_CALM, celsius=61.0)),
    Phase(name="66 C", device=replace(_CALM, celsius=66.0)),
    Phase(name="cooled to 52 C", device=replace(_CALM, celsius=52.0)),
    Phase(name="cooled to 39 C", device=_CALM),
    Phase(name="battery 19 %", device=replace(_CALM, charge_percent=19)),
    Phase(name="battery 9 %", device=replace(_CALM, charge_percent=9)),
    Phase(name="charging", device=replace(_CALM, charge_percent=9, is_charging=True)),
    Phase(name="memory 82 %", device=replace(_CALM, memory_share=0.82)),
    Phase(name="memory 86 %", device=replace(_CALM, memory_share=0.86)),
    Phase(name="memory 70 %", device=_CALM),
    Phase(name="sensor lost", device=replace(_CALM, celsius=None)),
    Phase(name="sensor back", device=_CALM),
)
