"""The replay of habits: traces, costs, and a device that adds up."""

import json

import pytest

from bench import warmup
from bench.habit_traces import NUM_ADAPTERS, PROFILES, Use, trace
from bench.result import BenchOptions
from bench.warmup_costs import STATED, measured_costs, storage_read_s, with_storage
from bench.warmup_policies import NoWarmUp
from bench.warmup_replay import Costs, Device

COSTS = Costs(first_token_s=1.0, load_s=10.0, restore_s=100.0, flash_mib=2.0, package_mib=9.0)
LIBRARY = ("a", "b", "c")
HOUR_S = 3600.0


def uses(*moments):
    return [Use(1e9 + at_s, "user", adapter) for at_s, adapter in moments]


def replay(trace_of, policy=None, *, num_slots=2, num_on_flash=2):
    device = Device(
        LIBRARY, COSTS, policy or NoWarmUp(), num_slots=num_slots, num_on_flash=num_on_flash
    )
    return device.replay(trace_of, 1, counted_from_s=0.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_gives_the_same_trace_in_order(profile):
    one = trace(profile, 5, 2)
    assert one == trace(profile, 5, 2)
    assert one != trace(profile, 6, 2)
    assert [use.unix_s for use in one] == sorted(use.unix_s for use in one)
    assert {use.adapter for use in one} <= set(range(NUM_ADAPTERS))


def test_a_first_response_is_what_the_tiers_cost():
    # On flash; in its slot; from the remote, in place of the one used before; slept: on flash.
    outcome = replay(uses((0, 0), (60, 0), (1000, 2), (4 * HOUR_S, 2)))
    assert outcome.cold_s == [11.0, 11.0]
    assert outcome.warm_s == [1.0, 111.0]
    assert outcome.found == {"memory": 0, "flash": 2, "remote": 0}


def test_slots_and_flash_drop_the_least_recently_used():
    outcome = replay(uses((0, 0), (100, 1), (200, 2), (300, 0)), num_slots=1, num_on_flash=2)
    assert outcome.cold_s == [11.0]
    assert outcome.warm_s == [11.0, 111.0, 111.0]


def test_what_is_read_from_storage_is_part_of_a_load(tmp_path):
    read_s = storage_read_s(100_000, tmp_path)
    assert 0.0 <= read_s < 10.0
    assert with_storage(COSTS, 0.5).load_s == 10.5
    assert list(tmp_path.iterdir()) == []


def test_costs_come_from_the_tiers_results_or_as_stated(tmp_path):
    path = tmp_path / "tiers.json"
    assert measured_costs(path) == (STATED, "stated in bench/warmup_costs.py")
    rows = [
        {"tier": tier, "first_token_p50_ms": value}
        for tier, value in (("memory", 10.0), ("flash", 30.0), ("remote", 530.0))
    ]
    document = {
        "tiers": rows,
        "flash_bytes_read_per_load": 2 * 2**20,
        "original_bytes": 10 * 2**20,
    }
    path.write_text(json.dumps({"results": document}))
    costs, _ = measured_costs(path)
    assert (costs.first_token_s, costs.load_s, costs.restore_s) == pytest.approx((0.01, 0.02, 0.5))
    assert (costs.flash_mib, costs.package_mib) == (2.0, 10.0)
    path.write_text(json.dumps({"results": {**document, "tiers": rows[:2]}}))
    assert measured_costs(path)[0] == STATED


def test_policies_stand_in_their_order_and_repeat_themselves():
    shape = warmup.SHAPES[1]
    found = {}
    for name in warmup.POLICIES:
        trace_of = trace("commuter", 3, 3)
        outcome = warmup.replay(name, trace_of, 3, shape, STATED)
        assert outcome == warmup.replay(name, trace_of, 3, shape, STATED)
        found[name] = sum(outcome.cold_s) / len(outcome.cold_s)
        assert outcome.wasted_mib <= outcome.moved_mib
    assert found["oracle"] < found["forecast"] < found["most recent"] < found["none"]


def test_the_quick_run_reports_every_profile_and_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warmup, "PROFILES", ("shift worker", "random user"))
    result = warmup.run(BenchOptions(quick=True, model_directory=tmp_path))
    rows = result.results[f"first response, {warmup.SHAPES[0].name}"]
    assert [row["profile, policy"] for row in rows][:4] == [
        "shift worker, none",
        "shift worker, most recent",
        "shift worker, forecast",
        "shift worker, oracle",
    ]
    assert len(rows) == 8
    assert len(result.targets) == 2
    assert set(result.results["seeds"]).isdisjoint(warmup.TUNING_SEEDS)
    json.dumps(result.results, allow_nan=False)
