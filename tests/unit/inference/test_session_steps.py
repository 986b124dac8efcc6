"""Conversations kept between two requests, in the engine."""

import pytest

from edgelora.errors import InternalError
from services.inference.engine.sessions import SessionLimits
from tests.support.step_bench import StepBench, solo_text

PROMPT = list(range(1, 14))  # three full blocks and one token
OTHERS = [[token] * 40 for token in range(50, 62)]


def answer(bench, prompt=PROMPT, adapters=(), *, session="s", max_tokens=8, **options):
    """Runs a turn alone; returns the conversation, and how much of the prompt was there."""
    one = bench.add(prompt, adapters, session=session, max_tokens=max_tokens, **options)
    bench.run()
    end = bench.end(one)
    assert bench.text(one) == solo_text(prompt, adapters, max_tokens)
    return bench.sequences[one].token_ids, end.num_cached_prompt_tokens


def flush(bench):
    """Other tenants' prompts take all the memory that is not held."""
    for prompt in OTHERS:
        bench.add(prompt, tenant_id="busy", max_tokens=1)
    bench.run()


def test_the_next_turn_finds_the_last_one_after_others_have_taken_the_memory():
    bench = StepBench(num_blocks=24, max_num_seqs=1)
    for session, num_cached in (("s", 20), ("", 0)):
        conversation, _ = answer(bench, session=session, tenant_id=f"of {session}")
        flush(bench)
        found = answer(bench, [*conversation, 7], session=session, tenant_id=f"of {session}")[1]
        assert found == num_cached


def test_the_same_name_and_the_same_words_of_two_tenants_share_nothing_T11_X01():
    bench = StepBench(num_blocks=64)
    conversation, _ = answer(bench, tenant_id="one")
    assert answer(bench, [*conversation, 7], tenant_id="two")[1] == 0
    assert answer(bench, [*conversation, 7], tenant_id=None)[1] == 0
    assert answer(bench, [*conversation, 7], tenant_id="one")[1] == 20
    assert bench.loop.status().num_sessions == 2


@pytest.mark.parametrize("next_adapters", [(), (2,), (1, 2)])
def test_another_adapter_in_the_next_turn_finds_nothing_X02_X03(next_adapters):
    bench = StepBench(num_blocks=64, num_slots=3)
    conversation, _ = answer(bench, adapters=(1,))
    assert answer(bench, [*conversation, 7], next_adapters)[1] == 0
    assert bench.loop.status().num_sessions == 1


def test_a_turn_that_was_cut_keeps_the_last_one():
    bench = StepBench(num_blocks=24, max_num_seqs=1)
    conversation, _ = answer(bench)
    cut = bench.add([*conversation, 7], session="s", max_tokens=20)
    for _ in range(4):
        bench.step()
    bench.loop.cancel(cut)
    failed = bench.add([*conversation, 8], session="s", max_tokens=20)
    for _ in range(4):
        bench.step()
    bench.loop._generations.fail(bench.loop._generations.find(failed), InternalError("no"))
    bench.collect()
    assert bench.loop.status().num_session_tokens == 20
    flush(bench)
    assert answer(bench, [*conversation, 9])[1] == 20


def test_ten_thousand_cancelled_turns_leave_what_was_there():
    bench = StepBench(num_blocks=24, max_num_seqs=2)
    answer(bench)
    before = bench.loop.status()
    for count in range(10_000):
        one = bench.add([count % 90, *PROMPT], session=f"s{count % 20}", max_tokens=20)
        if count % 3 == 0:
            bench.step()
        bench.loop.cancel(one)
        assert bench.events.pop(one) is not None
        del bench.sequences[one].token_ids
    after = bench.loop.status()
    assert bench.step() is False
    for name in ("num_sessions", "num_session_tokens", "num_free_kv_blocks", "num_running"):
        assert getattr(after, name) == getattr(before, name)
    assert after.num_waiting == 0


def test_sessions_give_way_before_anybody_is_preempted_or_waits():
    bench = StepBench(num_blocks=12, max_num_seqs=2)
    for name in ("a", "b"):
        answer(bench, session=name, tenant_id=name)
    assert bench.loop.status().num_session_tokens > 0
    one, two = (bench.add([n] * 20, max_tokens=4, tenant_id="busy") for n in (80, 81))
    bench.run()
    assert [bench.end(each).num_preemptions for each in (one, two)] == [0, 0]
    bench.assert_at_rest()


def test_a_prompt_as_large_as_the_cache_gets_all_of_it():
    bench = StepBench(num_blocks=12, max_num_seqs=2)
    for name in ("a", "b", "c"):
        answer(bench, session=name, tenant_id=name)
    answer(bench, [80] * 40, session="", max_tokens=8)
    assert bench.loop.status().num_sessions == 0


def test_an_idle_engine_lets_sessions_go_in_time():
    bench = StepBench(num_blocks=24, sessions=SessionLimits(max_age_s=60.0))
    answer(bench)
    expiry_s = bench.loop.next_expiry_s
    assert 0 < expiry_s - bench.clock() <= 60.0
    bench.clock.advance(expiry_s - bench.clock())
    assert bench.loop.step() is False
    assert (bench.loop.status().num_sessions, bench.loop.next_expiry_s) == (0, float("inf"))


def test_a_turn_that_runs_for_long_keeps_its_session_alive():
    bench = StepBench(num_blocks=24, sessions=SessionLimits(max_age_s=60.0))
    conversation, _ = answer(bench)
    bench.clock.advance(59.0)
    one = bench.add([*conversation, 7], session="s")
    bench.clock.advance(30.0)
    bench.step()
    assert bench.loop.status().num_sessions == 1
    bench.loop.cancel(one)


def test_what_is_forgotten_while_a_turn_runs_stays_forgotten():
    bench = StepBench(num_blocks=24)
    conversation, _ = answer(bench)
    running = bench.add([*conversation, 7], session="s", max_tokens=12)
    for _ in range(4):
        bench.step()
    assert bench.loop.forget("tenant", "s") == 1
    bench.run()
    assert bench.text(running) == solo_text([*conversation, 7], (), 12)
    status = bench.loop.status()
    assert (status.num_sessions, status.num_cached_kv_blocks) == (0, 0)
    assert answer(bench, [*conversation, 7])[1] == 0


def test_forgetting_all_of_a_tenant_leaves_nothing_of_it_and_all_of_others():
    bench = StepBench(num_blocks=64)
    ours = [answer(bench, session=name)[0] for name in ("a", "b", "")]
    theirs, _ = answer(bench, session="a", tenant_id="two")
    assert bench.loop.forget("tenant", "") == 2
    assert [answer(bench, [*each, 7], session="")[1] for each in ours[:1]] == [0]
    assert answer(bench, [*theirs, 7], session="a", tenant_id="two")[1] == 20


def test_a_deleted_adapters_sessions_end_and_none_begins():
    bench = StepBench(num_blocks=64)
    answer(bench, adapters=(1,), session="a")
    answer(bench, session="b")
    running = bench.add(PROMPT, (1,), session="c", max_tokens=8)
    bench.step()
    bench.loop.set_deleted(frozenset({"1"}))
    assert bench.loop.status().num_sessions == 1
    bench.run()
    assert bench.text(running) == solo_text(PROMPT, (1,), 8)
    assert bench.loop.status().num_sessions == 1


def test_without_prefix_caching_nothing_is_kept():
    bench = StepBench(prefix_caching=False)
    answer(bench)
    assert bench.loop.status().num_sessions == 0
