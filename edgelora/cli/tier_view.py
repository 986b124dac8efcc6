"""The tiers of the adapter store as lines for people."""

from __future__ import annotations

from edgelora.cli.adapter_view import stages_text
from edgelora.cli.messages import hit_rates, message_document
from edgelora.cli.output import counted
from edgelora.v1.adapter_pb2 import TierStatistics


def tier_lines(tiers: TierStatistics) -> list[str]:
    """What each tier did since the store started, and what it holds."""
    rates = hit_rates(tiers)
    held = {
        "memory": f"{_held(tiers.memory_bytes, tiers.memory_budget_bytes)}, "
        f"{counted(tiers.num_memory_evictions, 'eviction')}, "
        f"{counted(tiers.num_slot_waits, 'wait')} for a slot",
        "flash": f"{_held(tiers.flash_bytes, tiers.flash_budget_bytes)}, "
        f"{counted(tiers.num_flash_evictions, 'eviction')}, "
        f"{tiers.flash_bytes_read / 1e6:.1f} MB read",
        "remote": f"{tiers.remote_bytes_read / 1e6:.1f} MB fetched",
    }
    lines = [
        f"tier      {name:14} {_share(rates[name])} of requests, {text}"
        for name, text in held.items()
    ]
    if tiers.num_loads:
        stages = message_document(tiers.load_seconds)
        lines.append(
            f"loads     {tiers.num_loads}, on average {stages_text(stages, tiers.num_loads)}"
        )
    lines.append(f"warm-ups  {tiers.num_warm_ups}, {tiers.num_wasted_warm_ups} of them for nothing")
    return lines


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate * 100:.1f} %"


def _held(num_bytes: int, budget_bytes: int) -> str:
    bound = f" of {budget_bytes / 1e6:,.1f}" if budget_bytes else ""
    return f"{num_bytes / 1e6:,.1f}{bound} MB"
