"""An adapter's own probe is read as hostile input."""

import json

import pytest

from edgelora.errors import AdapterRejectedError
from services.adapter_store.verification.probes import (
    MAX_LINE_TOKENS,
    MAX_LINES,
    MAX_PROBE_BYTES,
    MAX_TOKENS,
    TokenSequence,
    built_in_sequences,
    probe_sequences,
    read_probe,
)


def line(**fields) -> bytes:
    return json.dumps({"prompt": "a", "answer": "b"} | fields).encode()


def refusal(data: bytes) -> AdapterRejectedError:
    with pytest.raises(AdapterRejectedError) as caught:
        read_probe(data)
    return caught.value


def test_reads_prompt_and_answer_of_every_line():
    data = line(prompt="<|im_start|>é", answer="x\ny") + b"\n" + line()
    wanted = (("<|im_start|>é", "x\ny"), ("a", "b"))
    assert read_probe(data) == wanted
    assert read_probe(data + b"\n") == wanted
    assert len(read_probe(b"\n".join([line()] * MAX_LINES))) == MAX_LINES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        line() + b"\n\n" + line(),
        b"\n".join([line()] * (MAX_LINES + 1)),
        line(answer="x" * MAX_PROBE_BYTES),
        line(more=1),
        b'{"prompt": "a"}',
        line(answer=""),
        line(prompt=None),
        line(answer=["b"]),
        b'{"prompt": "a", "answer": "b", "answer": "c"}',
        b'["a", "b"]',
        b"\xff\xfe",
        b'{"prompt": "a", "answer": NaN}',
        b"[" * 5000,
        b'{"prompt": "\\ud800", "answer": "b"}',
        b'{"prompt": "a", "answer": "b"} trailing',
    ],
)
def test_anything_else_is_refused_by_the_field(data):
    assert refusal(data).field == "probe"


def test_no_word_of_a_line_is_repeated_T14():
    for data in (line(canary=1), line(prompt="canary", answer=""), b"canary"):
        assert "canary" not in refusal(data).message


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def test_prompt_and_answer_are_cut_into_tokens_each_on_its_own():
    seen = []

    def tokenize(text: str) -> list[int]:
        seen.append(text)
        return letters(text)

    (sequence,) = probe_sequences([("ab", "cde")], tokenize, 100)
    assert sequence == TokenSequence([97, 98, 99, 100, 101], 2)
    assert seen == ["ab", "cde"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([("a", "b"), ("a", "b" * MAX_LINE_TOKENS)], "line 2"),
        ([("a", "b" * (MAX_LINE_TOKENS - 1))] * (MAX_TOKENS // MAX_LINE_TOKENS + 1), "tokens"),
        ([("", "b")], "line 1"),
        ([("a", "")], "line 1"),
    ],
)
def test_what_would_cost_too_much_or_nothing_is_refused(lines, words):
    with pytest.raises(AdapterRejectedError, match=words) as caught:
        probe_sequences(lines, letters, MAX_LINE_TOKENS)
    assert caught.value.field == "probe"


def test_built_in_texts_too_short_to_foretell_anything_are_left_out():
    assert built_in_sequences([[1, 2, 3], [1, 2]], 2) == (TokenSequence([1, 2, 3], 2),)


def test_a_line_that_is_no_json_is_named():
    assert refusal(line() + b"\nnot json").message.startswith(
        "probe.jsonl: line 2 is not valid JSON"
    )
