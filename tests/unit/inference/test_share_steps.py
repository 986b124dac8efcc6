"""The time of the steps, divided over requests and adapters while the engine runs."""

import pytest

from services.inference.engine.events import Completed, Failed, TextDelta, Worked
from tests.support.step_bench import StepBench


def timed(**options):
    """A bench whose steps take 0.1 s each, by its clock."""
    bench = StepBench(**options)
    bench.backend.before_forward = lambda chunks: bench.clock.advance(0.1)
    return bench


def figures(bench, sequence_id):
    return [
        event.engine_s
        for event in bench.events[sequence_id]
        if isinstance(event, TextDelta | Worked | Completed)
    ]


def test_requests_and_adapters_add_up_to_the_steps_and_not_to_the_proofs():
    bench = timed(num_slots=3, num_blocks=64)
    ids = [bench.add([5, 6, 7], adapters) for adapters in ((), (1,), (1, 2), ())]
    bench.run()
    status = bench.loop.status()
    assert status.step_s >= 0.1 * status.num_steps - 1e-6
    requests_s = sum(bench.end(each).engine_s for each in ids)
    shares = {share.digest: share for share in status.shares}
    assert set(shares) == {"", "1", "2"}
    assert sum(share.step_s for share in shares.values()) == pytest.approx(status.step_s)
    assert requests_s < status.step_s
    assert shares[""].num_output_tokens == 12
    assert (shares["1"].num_output_tokens, shares["2"].num_output_tokens) == (12, 6)
    assert shares[""].num_prompt_tokens == 6


def test_a_canary_in_a_step_is_its_adapters_time():
    bench = timed(num_slots=2, num_blocks=64, budget=16)
    first = bench.add([5], (1,), max_tokens=2)
    bench.run()  # measures the base's canary
    one = bench.add([5], max_tokens=30)
    bench.step()
    before = {share.digest: share.step_s for share in bench.loop.status().shares}
    bench.add([6], (2,), max_tokens=1)
    bench.step()
    bench.load_wanted()
    bench.step()
    after = {share.digest: share.step_s for share in bench.loop.status().shares}
    assert "2" not in before
    assert after["2"] > 0.0
    assert sum(after.values()) == pytest.approx(bench.loop.status().step_s)
    assert bench.end(first).engine_s < bench.loop.status().step_s
    bench.loop.cancel(one)


def test_the_figure_grows_with_the_deltas_and_ends_with_all_of_it():
    bench = timed()
    one = bench.add([5, 6, 7], max_tokens=6)
    bench.run()
    told = figures(bench, one)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(0.6)
    assert bench.end(one).engine_s == told[-1]


def test_a_long_prompt_tells_what_it_costs_before_its_first_token():
    bench = timed(budget=2, num_blocks=64, max_num_seqs=1)
    one = bench.add(list(range(40)), max_tokens=2)
    for _ in range(12):
        bench.step()
    told = figures(bench, one)
    assert not any(isinstance(event, TextDelta) for event in bench.events[one])
    assert told[-1] >= 1.2 - 0.3
    assert len(told) <= 5  # and not at every step


def test_of_what_is_cut_all_is_told():
    bench = timed()
    one, two = bench.add([5, 6, 7], max_tokens=20), bench.add([8], max_tokens=20)
    bench.step()

    def fail(chunks):
        bench.clock.advance(0.1)
        if any(chunk.token_ids[0] == bench.sequences[one].token_ids[-1] for chunk in chunks):
            raise RuntimeError

    bench.backend.before_forward = fail
    bench.step()
    assert isinstance(bench.end(one), Failed)
    assert figures(bench, one)[-1] == pytest.approx(bench.sequences[one].engine_s)
    bench.backend.before_forward = lambda chunks: bench.clock.advance(0.1)
    bench.run()
    total_s = bench.sequences[one].engine_s + bench.end(two).engine_s
    assert total_s == pytest.approx(bench.loop.status().step_s)


def test_who_was_preempted_pays_for_both_runs():
    bench = timed(num_blocks=6, max_num_seqs=3)
    ids = [bench.add([n] * 6, max_tokens=12) for n in (1, 2, 3)]
    bench.run()
    assert sum(bench.end(each).num_preemptions for each in ids) > 0
    assert sum(bench.end(each).engine_s for each in ids) == pytest.approx(
        bench.loop.status().step_s
    )
