"""What each level of pressure takes away, as the operator sets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from services.chassis.settings import Settings
from services.scheduler.pressure.device import Dimension

Meaning = Literal["normal", "cautious", "elevated", "critical"]
"""What an unknown dimension is taken for."""

_LOWEST_SHARE = 0.01
_LOWEST_SILENCE_S = 1.5
"""The monitor repeats itself every second."""
_MAX_RANK = 4096
_MAX_TOKENS = 2**20
_MAX_PLACES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureSettings:
    """The numbers of the policy. A critical level never allows more than an elevated one."""

    elevated_max_rank: int
    """ELEVATED_MAX_RANK (32): adapters above it are off while the temperature is elevated."""
    critical_max_rank: int
    """CRITICAL_MAX_RANK (16): the same while it is critical."""
    critical_places_share: float
    """CRITICAL_PLACES_SHARE (0.5): of the places, and of the sequences in a worker's step."""
    critical_prefill_share: float
    """CRITICAL_PREFILL_SHARE (0.5): of the prompt tokens in a worker's step."""
    critical_threads_share: float
    """CRITICAL_THREADS_SHARE (0.5): of a worker's threads."""
    battery_elevated_places: int
    """BATTERY_ELEVATED_PLACES (2): for background and batch together while the battery is low."""
    battery_elevated_max_output_tokens: int
    """BATTERY_ELEVATED_MAX_OUTPUT_TOKENS (256): of one answer."""
    battery_critical_max_output_tokens: int
    """BATTERY_CRITICAL_MAX_OUTPUT_TOKENS (64)"""
    cautious_places_share: float
    """CAUTIOUS_PLACES_SHARE (0.5): as CRITICAL_PLACES_SHARE, for what is unknown."""
    unknown: Mapping[Dimension, Meaning]
    """TEMPERATURE_UNKNOWN, MEMORY_UNKNOWN, BATTERY_UNKNOWN (cautious): what an unknown dimension
    is taken for: normal, cautious, elevated or critical."""
    retry_after_s: float
    """PRESSURE_RETRY_AFTER (10s): what a refused caller is told to wait."""
    silence_s: float
    """PRESSURE_SILENCE (3s): a monitor that says nothing for so long leaves all unknown; at least
    1.5 s, since the monitor repeats itself every second."""

    @classmethod
    def read(cls, settings: Settings) -> PressureSettings:
        """Reads the settings; mistakes are kept for `settings.finish`."""

        def share(name: str) -> float:
            return settings.number(name, 0.5, low=_LOWEST_SHARE, high=1.0)

        def unknown(dimension: Dimension) -> Meaning:
            name = f"{dimension.name}_UNKNOWN"
            return cast(Meaning, settings.choice(name, "cautious", get_args(Meaning)))

        elevated_max_rank = settings.integer("ELEVATED_MAX_RANK", 32, low=1, high=_MAX_RANK)
        elevated_tokens = settings.integer(
            "BATTERY_ELEVATED_MAX_OUTPUT_TOKENS", 256, low=1, high=_MAX_TOKENS
        )
        return cls(
            elevated_max_rank=elevated_max_rank,
            critical_max_rank=settings.integer(
                "CRITICAL_MAX_RANK", min(16, elevated_max_rank), low=1, high=elevated_max_rank
            ),
            critical_places_share=share("CRITICAL_PLACES_SHARE"),
            critical_prefill_share=share("CRITICAL_PREFILL_SHARE"),
            critical_threads_share=share("CRITICAL_THREADS_SHARE"),
            battery_elevated_places=settings.integer(
                "BATTERY_ELEVATED_PLACES", 2, low=1, high=_MAX_PLACES
            ),
            battery_elevated_max_output_tokens=elevated_tokens,
            battery_critical_max_output_tokens=settings.integer(
                "BATTERY_CRITICAL_MAX_OUTPUT_TOKENS",
                min(64, elevated_tokens),
                low=1,
                high=elevated_tokens,
            ),
            cautious_places_share=share("CAUTIOUS_PLACES_SHARE"),
            unknown={dimension: unknown(dimension) for dimension in Dimension},
            retry_after_s=settings.duration_s("PRESSURE_RETRY_AFTER", 10.0),
            silence_s=settings.duration_s("PRESSURE_SILENCE", 3.0, low=_LOWEST_SILENCE_S),
        )
