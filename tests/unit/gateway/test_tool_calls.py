"""Text and calls come out the same, however the output is cut into pieces."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgelora.errors import InternalError
from edgelora.v1.generation_pb2 import (
    FINISH_REASON_LENGTH,
    FINISH_REASON_STOP,
    FINISH_REASON_TOOL_CALLS,
    Delta,
    TokenLogprob,
)
from services.chassis.tool_call_text import BETWEEN, CLOSE, OPEN, call_text
from services.gateway.tool_calls import ToolCallReader


class Reading:
    """What came out of one answer; each character of it is a token of its own."""

    def __init__(self, text, *, cuts=(), reason=FINISH_REASON_STOP, size=None):
        reader = ToolCallReader()
        starts = range(0, len(text), size) if size else [0, *sorted(set(cuts)), len(text)]
        ends = [*starts[1:], len(text)]
        self.events = []
        for start, end in zip(starts, ends, strict=True):
            ids = range(start, end)
            logprobs = [TokenLogprob(token_id=each) for each in ids]
            delta = Delta(text=text[start:end], token_ids=ids, logprobs=logprobs)
            self.events += list(reader.read(delta))
        # The end token stands for no text.
        end = [TokenLogprob(token_id=len(text))]
        self.events += list(reader.read(Delta(token_ids=[len(text)], logprobs=end)))
        self.events += list(reader.end(reason))
        self.reason = reader.reason(reason)
        deltas = [event.delta for event in self.events if event.HasField("delta")]
        self.text = "".join(delta.text for delta in deltas)
        self.token_ids = [each for delta in deltas for each in delta.token_ids]
        self.calls = [event.tool_call for event in self.events if event.HasField("tool_call")]
        for delta in deltas:
            assert [each.token_id for each in delta.logprobs] == list(delta.token_ids)

    @property
    def plain_calls(self):
        return [(call.name, call.arguments_json) for call in self.calls]


OSLO = ("get_weather", '{"city": "Oslo"}')
TEXT = st.text(
    st.one_of(st.sampled_from('<>tool_cal/"{}[]\\\n'), st.characters(exclude_categories=["Cs"]))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=4).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)
CALLS = st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), ARGUMENTS))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT.filter(lambda text: OPEN not in text), CALLS, st.data())
def test_whatever_the_pieces(text, calls, data):
    answer = text + BETWEEN.join(call_text(*call) for call in calls)
    cuts = data.draw(st.lists(st.integers(0, len(answer))))
    reading = Reading(answer, cuts=cuts)
    assert reading.text == text
    assert reading.plain_calls == calls
    assert reading.reason == (FINISH_REASON_TOOL_CALLS if calls else FINISH_REASON_STOP)
    assert len({call.id for call in reading.calls}) == len(calls)
    if not calls:
        assert reading.token_ids == list(range(len(answer) + 1))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_with_text_and_two_calls(size):
    answer = f"Let me look. 🤗 {call_text(*OSLO)}{BETWEEN}{call_text('off', '{}')}"
    reading = Reading(answer, size=size)
    assert reading.text == "Let me look. 🤗 "
    assert reading.plain_calls == [OSLO, ("off", "{}")]
    assert all(call.id.startswith("call_") for call in reading.calls)
    if size == 1:
        # Tokens of calls are not among those of the deltas either.
        assert reading.token_ids == list(range(len("Let me look. 🤗 ")))


@pytest.mark.parametrize("cut", range(len(OPEN), len(call_text(*OSLO))))
def test_a_cut_call_is_no_call(cut):
    reading = Reading("Hm. " + call_text(*OSLO)[:cut], size=1, reason=FINISH_REASON_LENGTH)
    assert (reading.text, reading.calls) == ("Hm. ", [])
    assert reading.reason == FINISH_REASON_LENGTH


def test_a_stop_string_in_a_call_cuts_it():
    reading = Reading(call_text(*OSLO)[:30], reason=FINISH_REASON_STOP)
    assert (reading.text, reading.calls, reading.reason) == ("", [], FINISH_REASON_STOP)


def test_a_whole_call_stays_when_the_next_one_is_cut():
    answer = call_text(*OSLO) + BETWEEN + call_text(*OSLO)[:20]
    reading = Reading(answer, size=3, reason=FINISH_REASON_LENGTH)
    assert reading.plain_calls == [OSLO]
    assert reading.reason == FINISH_REASON_LENGTH


def test_what_began_like_a_call_is_text_after_all_S13():
    reading = Reading("a <tool_c", size=1)
    assert reading.text == "a <tool_c"
    # Of a cut answer it was a call that began.
    assert Reading("a <tool_c", size=1, reason=FINISH_REASON_LENGTH).text == "a "
    assert Reading("<tool_caller>", size=1).text == "<tool_caller>"


def test_marks_inside_of_arguments_are_arguments():
    arguments = json.dumps({"a": f"{CLOSE}\n{OPEN}", "b": '"}}', "c": "\\"})
    reading = Reading(call_text("echo", arguments), size=1)
    assert reading.plain_calls == [("echo", arguments)]


@pytest.mark.parametrize(
    "answer",
    [
        f"{OPEN}{{}}{CLOSE}" + "x" * 100,
        f"{OPEN}\n" + "x" * 200,
        call_text("get_weather", "{} ")[:-1] + "x" * 20,
        call_text("get_weather", "[1]") + "x" * 100,
    ],
)
def test_a_call_of_another_form_is_an_error_of_ours(answer):
    with pytest.raises(InternalError):
        Reading(answer, size=5)


def test_calls_ids_are_not_used_again():
    ids = {Reading(call_text(*OSLO)).calls[0].id for _ in range(100)}
    assert len(ids) == 100
