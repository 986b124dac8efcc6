"""Steps and failures, without threads; adapters: test_adapter_loading_steps.py."""

import numpy as np
import pytest

from edgelora.errors import (
    InternalError,
)
from services.inference.engine.events import Admitted, Completed, Failed, TextDelta
from services.inference.engine.sequence import (
    FinishReason,
    Priority,
    SamplingParams,
    StopConditions,
)
from tests.support.step_bench import StepBench, solo_text

PROMPT = [1, 2, 3, 4, 5]


def test_a_generation_is_admitted_streams_and_completes():
    bench = StepBench()
    one = bench.add(PROMPT, max_tokens=6)
    bench.run()
    events = bench.events[one]
    assert isinstance(events[0], Admitted)
    end = bench.end(one)
    assert end.finish_reason is FinishReason.LENGTH
    assert (end.num_prompt_tokens, end.num_output_tokens) == (5, 6)
    assert len(bench.text(one)) == 6
    sent = [token for e in events if isinstance(e, TextDelta) for token in e.tokens]
    assert [token.token_id for token in sent] == bench.sequences[one].token_ids[5:]
    bench.assert_at_rest()


def test_the_first_text_goes_out_at_once_and_the_rest_in_pieces_of_20_ms():
    bench = StepBench()
    one = bench.add(PROMPT, max_tokens=9)
    bench.run()  # one token every 12.5 ms
    deltas = [event for event in bench.events[one] if isinstance(event, TextDelta)]
    assert [len(delta.tokens) for delta in deltas] == [1, 2, 2, 2, 2]


def test_the_model_may_end_unless_told_to_go_on():
    text = solo_text(PROMPT, (), 6)
    end_id = ord(text[2]) - 32
    bench = StepBench(eos_token_ids=frozenset({end_id}))
    one = bench.add(PROMPT, max_tokens=6)
    other = bench.add(PROMPT, stop=StopConditions(max_tokens=6, ignore_eos=True))
    stopped = bench.add(PROMPT, stop=StopConditions(max_tokens=6, stop_token_ids={end_id}))
    bench.run()
    for sequence_id in (one, stopped):
        assert bench.end(sequence_id).finish_reason is FinishReason.STOP
        assert bench.text(sequence_id) == text[: text.index(text[2])]
    assert bench.text(other) == text


def test_a_stop_string_ends_the_output_before_it():
    text = solo_text(PROMPT, (), 6)
    bench = StepBench()
    one = bench.add(PROMPT, stop=StopConditions(max_tokens=6, stop_strings=(text[2:4],)))
    bench.run()
    assert bench.text(one) == text[: text.index(text[2:4])]
    assert bench.end(one).stop_string == text[2:4]
    assert bench.end(one).finish_reason is FinishReason.STOP


def test_mixed_batches_equal_solo_runs_I4_Q07_Q12():
    bench = StepBench(num_slots=4, max_num_seqs=8, num_blocks=64)
    asked = [(PROMPT, ()), (PROMPT, (1,)), (PROMPT, (2,)), (PROMPT * 4, (1, 2)), ([9], (3,))]
    ids = [bench.add(prompt, adapters) for prompt, adapters in asked]
    bench.run()
    texts = [bench.text(sequence_id) for sequence_id in ids]
    assert texts == [solo_text(prompt, adapters, 6) for prompt, adapters in asked]
    assert len(set(texts)) == 5


def test_sampling_with_a_seed_does_not_depend_on_the_batch():
    params = SamplingParams(temperature=1.0, seed=11)
    bench = StepBench(num_slots=4, max_num_seqs=8, num_blocks=64)
    mates = [bench.add([n], sampling=SamplingParams(temperature=1.0, seed=n)) for n in (5, 6)]
    one = bench.add(PROMPT, sampling=params)
    bench.run()
    assert bench.text(one) == solo_text(PROMPT, (), 6, sampling=params)
    assert len({bench.text(mate) for mate in mates}) == 2


def test_a_preempted_generation_goes_on_where_it_was():
    bench = StepBench(num_blocks=6, max_num_seqs=3)  # 24 tokens
    ids = [bench.add([n] * 6, max_tokens=12) for n in (1, 2, 3)]
    bench.run()
    assert sum(bench.end(sequence_id).num_preemptions for sequence_id in ids) > 0
    for n, sequence_id in zip((1, 2, 3), ids, strict=True):
        assert bench.text(sequence_id) == solo_text([n] * 6, (), 12)
        sent = [e for e in bench.events[sequence_id] if isinstance(e, Admitted)]
        assert len(sent) == 1
    bench.assert_at_rest()


def test_cancelled_work_is_gone_before_the_next_step_S10():
    bench = StepBench(num_slots=1)
    one = bench.add(PROMPT, (1,), max_tokens=100)
    for _ in range(3):
        bench.step()
        bench.load_wanted()
    bench.loop.cancel(one)
    bench.assert_at_rest()
    assert bench.step() is False
    assert bench.end(one) is None
    bench.loop.cancel(one)  # again is harmless


def test_blocks_given_back_never_show_in_another_sequence_T12():
    bench = StepBench(num_blocks=8, max_num_seqs=2)
    for secret in range(20):
        gone = bench.add([secret] * 9, max_tokens=4)
        bench.step()
        bench.step()
        bench.loop.cancel(gone)
        one = bench.add(PROMPT, max_tokens=4)
        bench.run()
        assert bench.text(one) == solo_text(PROMPT, (), 4)


def test_the_same_prompt_after_another_adapter_equals_its_cold_run_X01_X02_X03():
    bench = StepBench(num_slots=1)
    texts = []
    for adapter in (1, 2, 1, 2):
        one = bench.add(PROMPT, (adapter,))
        bench.run()
        texts.append(bench.text(one))
    assert texts == [solo_text(PROMPT, (adapter,), 6) for adapter in (1, 2, 1, 2)]
    assert texts[0] != texts[1]


def test_alternating_adapters_leave_long_requests_alone_Q08():
    bench = StepBench(num_slots=2, num_blocks=64, max_num_seqs=3)
    anchor = bench.add(PROMPT, (1,), max_tokens=60)
    base = bench.add(PROMPT, max_tokens=60)
    for number in range(60):
        bench.add([7, 7, 7, number % 3], (1 + number % 2,), max_tokens=2)
        bench.step()
        bench.load_wanted()
    bench.run()
    assert bench.text(anchor) == solo_text(PROMPT, (1,), 60)
    assert bench.text(base) == solo_text(PROMPT, (), 60)


# Failures.


def rows_of(bench, sequence_id):
    """Marks the rows of a sequence by its first token, to be told apart in the back end."""
    return lambda chunk: chunk.block_table is bench.sequences[sequence_id].block_table


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_a_row_that_is_no_number_fails_alone_F31(value):
    bench = StepBench()
    bad, good = bench.add([1] * 3), bench.add(PROMPT)
    is_bad = rows_of(bench, bad)

    def poison(chunks, logits):
        for index, chunk in enumerate(chunks):
            if is_bad(chunk) and chunk.start_position >= 3:
                logits[index, ::7] = value

    bench.backend.edit_logits = poison
    bench.run()
    assert isinstance(bench.end(bad).error, InternalError)
    assert bench.text(good) == solo_text(PROMPT, (), 6)
    assert bench.loop.status().num_failed_rows == 1
    bench.assert_at_rest()


@pytest.mark.parametrize("error", [RuntimeError("secret"), MemoryError(), ValueError()])
def test_a_failing_forward_costs_only_the_row_that_fails_alone_F31(error):
    bench = StepBench()
    bad, good = bench.add([1] * 3), bench.add(PROMPT)
    is_bad = rows_of(bench, bad)

    def fail(chunks):
        if any(is_bad(chunk) and chunk.start_position >= 3 for chunk in chunks):
            raise error

    bench.backend.before_forward = fail
    bench.run()
    assert isinstance(bench.end(bad).error, InternalError)
    assert "secret" not in bench.end(bad).error.message
    assert bench.text(good) == solo_text(PROMPT, (), 6)
    bench.assert_at_rest()
    bench.backend.before_forward = lambda chunks: None
    again = bench.add(PROMPT)
    bench.run()
    assert bench.text(again) == solo_text(PROMPT, (), 6)


def test_a_step_that_fails_for_everybody_fails_its_sequences_and_the_engine_lives():
    bench = StepBench()
    ids = [bench.add(PROMPT), bench.add([1])]

    def fail(chunks):
        raise RuntimeError

    bench.backend.before_forward = fail
    bench.run()
    assert all(isinstance(bench.end(sequence_id), Failed) for sequence_id in ids)
    bench.assert_at_rest()


def test_a_row_that_can_not_be_sampled_fails_alone_F31():
    bench = StepBench()
    bad = bench.add([1] * 3, sampling=SamplingParams(temperature=1.0, seed=1, top_k=13))
    good = bench.add(PROMPT, sampling=SamplingParams(temperature=1.0, seed=1))
    original = bench.backend.sample

    def refuse(logits, rows):
        if any(row.top_k == 13 for row in rows):
            raise ValueError
        return original(logits, rows)

    bench.backend.sample = refuse
    bench.run()
    assert isinstance(bench.end(bad).error, InternalError)
    assert bench.text(good) == solo_text(
        PROMPT, (), 6, sampling=SamplingParams(temperature=1.0, seed=1)
    )
    bench.assert_at_rest()


# Adapters.


def test_twenty_cancels_with_every_slot_taken_Q02():
    bench = StepBench(num_slots=2, num_blocks=10, max_num_seqs=4)
    ids = []
    for number in range(30):
        prompt = [number % 5 + 1] * (number * 5 % 17 + 1)
        ids.append(bench.add(prompt, ((1,), (2,), (), (3,))[number % 4], max_tokens=5))
        if number % 3 != 0 or number > 10:
            bench.step()
            bench.load_wanted()
    cancelled = ids[5:25]
    for sequence_id in cancelled:
        bench.loop.cancel(sequence_id)
    bench.run()
    for sequence_id in set(ids) - set(cancelled):
        assert isinstance(bench.end(sequence_id), Completed)
    bench.assert_at_rest()


def test_priorities_reach_the_scheduler():
    bench = StepBench(max_num_seqs=1)
    batch = bench.add(PROMPT, max_tokens=20, priority=Priority.BATCH)
    bench.step()
    urgent = bench.add(PROMPT, max_tokens=4)
    bench.run()
    assert bench.end(urgent).total_s < bench.end(batch).total_s
    assert bench.end(batch).num_preemptions == 1
    assert bench.text(batch) == solo_text(PROMPT, (), 20)
