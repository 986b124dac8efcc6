"""What a node's tiers did between two moments."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from edgelora.client import EdgeLoraClient

_STAGES = ("remote_s", "fetch_s", "check_s", "decode_s", "prove_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCounts:
    """Sums of a node's tiers."""

    num_memory_hits: int = 0
    num_flash_hits: int = 0
    num_remote_hits: int = 0
    num_slot_waits: int = 0
    num_loads: int = 0
    flash_bytes_read: int = 0
    remote_s: float = 0.0
    fetch_s: float = 0.0
    check_s: float = 0.0
    decode_s: float = 0.0
    prove_s: float = 0.0

    def __add__(self, other: TierCounts) -> TierCounts:
        return TierCounts(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def __sub__(self, other: TierCounts) -> TierCounts:
        return TierCounts(**{name: getattr(self, name) - getattr(other, name) for name in _NAMES})

    def document(self) -> dict[str, Any]:
        """Hits and loads for a table, with the mean of each stage of a load in milliseconds."""
        hits = self.num_memory_hits + self.num_flash_hits + self.num_remote_hits
        loads = max(1, self.num_loads)
        return {
            "memory_hits": round(self.num_memory_hits / hits, 3) if hits else None,
            "loads": self.num_loads,
            "slot_waits": self.num_slot_waits,
            "bytes_per_load": round(self.flash_bytes_read / loads),
            **{
                f"{name.removesuffix('_s')}_ms": round(getattr(self, name) / loads * 1000, 2)
                for name in _STAGES
            },
        }


_NAMES = [each.name for each in fields(TierCounts)]


async def tier_counts(client: EdgeLoraClient) -> TierCounts:
    """The sums since the node's store started."""
    tiers = (await client.status()).tiers
    return TierCounts(
        **{name: getattr(tiers.load_seconds if name in _STAGES else tiers, name) for name in _NAMES}
    )
