"""`edgelora status` tells what the tiers did."""

from __future__ import annotations

import json

import pytest

from edgelora.v1.adapter_pb2 import LoadStages, TierStatistics

pytestmark = pytest.mark.integration


async def test_tiers_are_in_the_table_and_in_json_as_numbers(command):
    command.gateway.store.tiers = TierStatistics(
        num_memory_hits=90,
        num_flash_hits=8,
        num_remote_hits=2,
        num_loads=10,
        load_seconds=LoadStages(fetch_s=0.01, decode_s=0.12),
        flash_bytes=3_000_000,
        flash_budget_bytes=8_000_000,
        memory_bytes=1_500_000,
        memory_budget_bytes=6_000_000,
        num_memory_evictions=1,
        num_flash_evictions=4,
        flash_bytes_read=8_000_000,
        num_warm_ups=5,
        num_wasted_warm_ups=2,
    )
    # The monitor is not there: the status says so by 1.
    lines = (await command("status", status=1)).splitlines()
    assert (
        "tier      memory         90.0 % of requests, 1.5 of 6.0 MB, 1 eviction, 0 waits for a slot"
        in lines
    )
    flash = next(line for line in lines if line.startswith("tier      flash"))
    assert flash.endswith(" 8.0 % of requests, 3.0 of 8.0 MB, 4 evictions, 8.0 MB read")
    assert "tier      remote         2.0 % of requests, 0.0 MB fetched" in lines
    assert "warm-ups  5, 2 of them for nothing" in lines
    loads = next(line for line in lines if line.startswith("loads"))
    assert "fetch 1.0 ms" in loads
    assert "decode 12.0 ms" in loads

    tiers = json.loads(await command("status", "--json", status=1))["tiers"]
    assert tiers["hit_rates"] == {"memory": 0.9, "flash": 0.08, "remote": 0.02}
    assert tiers["flash_budget_bytes"] == 8_000_000
    assert tiers["load_seconds"]["decode_s"] == 0.12


async def test_before_the_first_request_a_tier_has_no_rate(command):
    text = await command("status", status=1)
    assert "tier      memory         - of requests" in text
    assert "loads " not in text
