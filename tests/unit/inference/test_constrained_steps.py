"""Constraints in the steps: masks, ends, and rows that fail alone."""

import json

import pytest

from edgelora.errors import InvalidRequestError
from services.inference.engine.events import Completed, Failed, TextDelta
from services.inference.engine.sequence import (
    FinishReason,
    Priority,
    SamplingParams,
    SequenceStatus,
    StopConditions,
)
from tests.support.grammars import constraint_of, opened
from tests.support.stand_in_backend import VOCAB_SIZE
from tests.support.step_bench import StepBench, solo_text

EOS = 0
CHARACTERS = [bytes([32 + index]) for index in range(VOCAB_SIZE)]
# Token 0, the blank, is the end token here.
TOKENIZER = opened([b"\xffend", *CHARACTERS[1:]], eos=EOS, control_ids=(EOS,))
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 22, 333]}, "b": {"type": "array", "items": {"const": 7}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def compact(**constraint):
    """A constraint without blanks: the end token takes their place in this vocabulary."""
    return constraint_of(TOKENIZER, **constraint)


def steps(**settings):
    return StepBench(eos_token_ids=frozenset({EOS}), **settings)


def finished(bench, sequence_id):
    end = bench.end(sequence_id)
    assert isinstance(end, Completed), end
    return end.finish_reason, bench.text(sequence_id)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_finished_grammar_ends_the_sequence(temperature):
    bench = steps()
    ids = [
        bench.add(
            [seed, 2, 3],
            max_tokens=50,
            constraint=compact(regex="(yes|no|perhaps)!"),
            sampling=SamplingParams(temperature=temperature, seed=seed),
        )
        for seed in range(1, 7)
    ]
    bench.run()
    for sequence_id in ids:
        reason, text = finished(bench, sequence_id)
        assert text in ("yes!", "no!", "perhaps!")
        assert reason is FinishReason.STOP
    bench.assert_at_rest()


def test_others_in_the_batch_say_what_they_say_alone():
    bench = steps()
    bench.add([9, 9], constraint=compact(regex="[a-z]{30}"), max_tokens=40)
    free = bench.add([4, 5, 6], max_tokens=20, stop=StopConditions(max_tokens=20, ignore_eos=True))
    bench.run()
    stop = StopConditions(max_tokens=20, ignore_eos=True)
    assert bench.text(free) == solo_text([4, 5, 6], (), 20, stop=stop)


def test_the_end_token_comes_only_where_the_output_is_complete():
    bench = steps()
    for seed in range(20):
        sampling = SamplingParams(temperature=2.0, seed=seed)
        bench.add([7], constraint=compact(regex="(ab)+"), max_tokens=60, sampling=sampling)
    bench.run()
    for sequence_id in bench.sequences:
        reason, text = finished(bench, sequence_id)
        assert text.replace("ab", "") == ""
        assert text and reason is FinishReason.STOP


def test_an_answer_cut_by_max_tokens_says_so():
    bench = steps()
    cut = bench.add([7], constraint=compact(regex="[a-z]{10}"), max_tokens=9)
    whole = bench.add([7], constraint=compact(regex="[a-z]{10}"), max_tokens=10)
    bench.run()
    assert finished(bench, cut)[0] is FinishReason.LENGTH
    # The last token that may be and the last one the grammar has: it is whole.
    assert finished(bench, whole)[0] is FinishReason.STOP
    assert bench.text(whole).startswith(bench.text(cut))


def test_ignore_eos_does_not_outlast_the_grammar():
    bench = steps()
    stop = StopConditions(max_tokens=50, ignore_eos=True)
    one = bench.add([7], constraint=compact(regex="[a-z]{3}"), stop=stop)
    # Where it may end, the end token is one choice among others, and it ends the grammar.
    open_end = bench.add([8], constraint=compact(regex="a{2,}"), stop=stop)
    bench.run()
    reason, text = finished(bench, one)
    assert (reason, len(text)) == (FinishReason.STOP, 3)
    reason, text = finished(bench, open_end)
    # The bench's text of the end token is a blank.
    assert text.rstrip() == "a" * len(text.rstrip())
    assert (reason is FinishReason.STOP) == (len(text) < 50)


def test_a_stop_string_cuts_what_is_constrained_too():
    bench = steps()
    stop = StopConditions(max_tokens=50, stop_strings=("cd",))
    one = bench.add([7], constraint=compact(regex="abcdef"), stop=stop)
    bench.run()
    end = bench.end(one)
    assert (bench.text(one), end.finish_reason, end.stop_string) == ("ab", FinishReason.STOP, "cd")


def test_a_stop_token_cuts_what_is_constrained_too():
    bench = steps()
    stop = StopConditions(max_tokens=50, stop_token_ids=frozenset({ord("c") - 32}))
    one = bench.add([7], constraint=compact(regex="abcdef"), stop=stop)
    bench.run()
    assert bench.end(one).finish_reason is FinishReason.STOP
    assert bench.text(one).startswith("ab") and "d" not in bench.text(one)


def test_penalties_choose_among_what_is_allowed():
    bench = steps()
    sampling = SamplingParams(repetition_penalty=2.0, presence_penalty=2.0, frequency_penalty=2.0)
    one = bench.add([7], constraint=compact(regex="(a|b){8}"), max_tokens=9, sampling=sampling)
    bench.run()
    assert set(finished(bench, one)[1]) == {"a", "b"}


def test_a_preempted_sequence_goes_on_in_its_grammar():
    # Room for one of two: the second comes first and the other waits, then computes again.
    def texts(num_blocks, max_num_seqs):
        bench = steps(num_blocks=num_blocks, max_num_seqs=max_num_seqs)
        regex = "<[a-z]{5}=[0-9]{5}>"
        ids = [
            bench.add(
                [1, 2, 3, seed], constraint=compact(regex=regex), max_tokens=30, priority=each
            )
            for seed, each in ((5, Priority.BATCH), (6, Priority.INTERACTIVE), (7, Priority.BATCH))
        ]
        bench.run()
        return [finished(bench, each) for each in ids], bench.loop.status().num_preemptions

    roomy, none = texts(num_blocks=32, max_num_seqs=3)
    tight, some = texts(num_blocks=8, max_num_seqs=3)
    assert (none, some > 0) == (0, True)
    assert tight == roomy
    assert all(reason is FinishReason.STOP for reason, _ in roomy)


def test_a_grammar_that_breaks_fails_its_row_alone_T18():
    bench = steps()
    # Its automaton has more states than a step may make.
    multiple = {"type": "integer", "multipleOf": 7919, "minimum": 3, "maximum": 10**15}
    hostile = compact(json_schema=multiple)
    broken = bench.add([7], constraint=hostile, max_tokens=30)
    good = bench.add([8], constraint=compact(regex="[a-z]{12}"), max_tokens=30)
    free = bench.add([4, 5, 6], stop=StopConditions(max_tokens=20, ignore_eos=True))
    bench.run()
    end = bench.end(broken)
    assert isinstance(end, Failed)
    assert isinstance(end.error, InvalidRequestError)
    assert end.error.field == "options.constraint.json_schema"
    assert "simpler" in end.error.message
    assert finished(bench, good)[0] is FinishReason.STOP
    stop = StopConditions(max_tokens=20, ignore_eos=True)
    assert bench.text(free) == solo_text([4, 5, 6], (), 20, stop=stop)
    bench.assert_at_rest()


def test_logprobs_are_those_of_the_untouched_row():
    def first(constraint):
        bench = steps()
        one = bench.add([4, 5, 6], max_tokens=1, num_top_logprobs=3, constraint=constraint)
        bench.run()
        (delta,) = [event for event in bench.events[one] if isinstance(event, TextDelta)]
        return delta.tokens[0].logprob

    free, bound = first(None), first(compact(regex="z+"))
    assert bound.top == free.top
    assert bound.token_id == ord("z") - 32
    assert bound.logprob <= free.logprob


def test_cancelled_ones_hold_nothing():
    bench = steps()
    one = bench.add([7], constraint=compact(regex="[a-z]+"), max_tokens=40)
    for _ in range(5):
        bench.step()
    assert bench.sequences[one].status is SequenceStatus.RUNNING
    bench.loop.cancel(one)
    bench.run()
    bench.assert_at_rest()


def test_json_of_tokens_of_one_byte():
    # The vocabulary of the bench with an end token of its own.
    tokenizer = opened(CHARACTERS)
    bench = StepBench()
    for seed in range(12):
        constraint = constraint_of(tokenizer, json_schema=SCHEMA)
        sampling = SamplingParams(temperature=1.0, seed=seed)
        bench.add([seed], constraint=constraint, max_tokens=60, sampling=sampling)
    bench.run()
    for sequence_id in bench.sequences:
        reason, text = finished(bench, sequence_id)
        if reason is FinishReason.STOP:
            value = json.loads(text)
            assert value["a"] in (1, 22, 333)
            assert set(value["b"]) <= {7}
    assert any(finished(bench, each)[0] is FinishReason.STOP for each in bench.sequences)
