"""The targets are ratios of one run, and say when a peer did other work than it was asked."""

from bench.engine_cases import CASES, SHAPE_CASES
from bench.engine_targets import engine_targets, shape_targets

PEERS = ("llama.cpp Q4_0", "openvino", "vllm", "peft")


def speeds(ours, theirs, cases=CASES):
    return {
        case.name: {"native": ours, **({} if case.only_ours else dict.fromkeys(PEERS, theirs))}
        for case in cases
    }


def by_name(targets):
    found = {target.name: target for target in targets}
    assert len(found) == len(targets)
    return found


def test_ratios_are_ours_over_theirs():
    found = by_name(engine_targets(speeds(1200.0, 100.0), frozenset()))
    assert found["8 streams, 8 adapters / llama.cpp Q4_0"].value == 12.0
    assert found["8 streams, 8 adapters / llama.cpp Q4_0"].ok
    assert found["8 streams, 8 adapters / peft"].target == ">= 15"
    assert not found["8 streams, 8 adapters / peft"].ok


def test_an_engine_that_served_the_base_is_named_where_adapters_were_asked_for():
    names = by_name(engine_targets(speeds(1200.0, 100.0), frozenset({"openvino"})))
    assert "8 streams, 8 adapters / openvino (it served the base)" in names
    assert "8 streams, base / openvino" in names


def test_a_missing_engine_is_a_target_without_a_figure():
    table = speeds(1200.0, 100.0)
    for row in table.values():
        row.pop("vllm", None)
    (target,) = (one for one in engine_targets(table, frozenset()) if "vllm" in one.name)
    assert (target.value, target.ok) == (None, False)


def test_cost_is_the_extra_time_of_a_step_and_growth_the_gain_of_streams():
    table = speeds(100.0, 1.0)
    table["8 streams, base"]["native"] = 600.0
    table["8 streams, 8 adapters"]["native"] = 400.0
    found = by_name(engine_targets(table, frozenset()))
    assert found["8 streams, 8 adapters: extra time of a step over base"].value == 0.5
    assert not found["8 streams, 8 adapters: extra time of a step over base"].ok
    assert found["8 streams, base / 1 stream, base"].value == 6.0
    assert found["8 streams, 8 adapters / 1 stream, adapter"].value == 4.0


def test_the_share_of_the_bandwidth_is_aimed_at_for_the_large_shape_only():
    table = speeds(140.0, 100.0, SHAPE_CASES)
    small = by_name(shape_targets("360m", table, frozenset(), 0.5))
    large = by_name(shape_targets("1.7b", table, frozenset(), 0.5))
    assert small["1 stream, base / llama.cpp Q4_0"].ok
    (share,) = large.keys() - small.keys()
    assert large[share].value == 0.5
    assert not large[share].ok
