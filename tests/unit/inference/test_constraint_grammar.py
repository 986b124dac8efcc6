"""Grammars and the vocabulary they are read with agree with our own detokenizer."""

import json
from functools import cache

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from edgelora.v1.generation_pb2 import Constraint, Tool, ToolChoice, ToolUse
from services.chassis.tool_call_text import BETWEEN, call_text
from services.inference.constraints.grammar import constraint_grammar, tools_grammar
from services.inference.constraints.vocabulary import OutputVocabulary
from services.inference.engine.detokenizer import Detokenizer
from services.inference.engine.sequence import SampledToken
from services.inference.tokenizer import TextTokenizer
from tests.support.grammars import matcher_of
from tests.support.small_tokenizer import EOS_TOKEN_ID, small_tokenizer

EOS = frozenset({EOS_TOKEN_ID})


def byte_level():
    return TextTokenizer(small_tokenizer().to_str())


def with_call_tokens():
    tokenizer = small_tokenizer()
    marks = ("<tool_call>", "</tool_call>")
    tokenizer.add_special_tokens([AddedToken(each, normalized=False) for each in marks])
    return TextTokenizer(tokenizer.to_str())


def byte_fallback():
    """As SentencePiece spells: blanks as U+2581, odd bytes by number, a first blank dropped."""
    spellings = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    spellings += ["\u2581", *map(chr, range(0x21, 0x7F)), '{"', '"}', "\u2581{", "\u2581the"]
    vocab = {spelling: index for index, spelling in enumerate(spellings)}
    merges = [("{", '"'), ('"', "}"), ("\u2581", "{")]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    controls = ("<unk>", "<s>", "</s>")
    tokenizer.add_special_tokens([AddedToken(each, normalized=False) for each in controls])
    return TextTokenizer(tokenizer.to_str())


KINDS = {"byte level": byte_level, "call tokens": with_call_tokens, "byte fallback": byte_fallback}


@cache
def opened(kind):
    tokenizer = KINDS[kind]()
    # Models may have ids that no token has.
    vocab_size = len(tokenizer.token_bytes._table) + 5
    vocabulary = OutputVocabulary.of(tokenizer, vocab_size, EOS)
    return tokenizer, vocabulary, vocabulary.open(tokenizer.encode_written)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def allowed(matcher):
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    return np.flatnonzero(bits)


def written(kind, grammar, seed, limit=300):
    """A random answer of a grammar, or None when it is cut: ids and text of our detokenizer."""
    tokenizer, _, ll = opened(kind)
    matcher = matcher_of(ll, grammar)
    random = np.random.default_rng(seed)
    detokenizer = Detokenizer(tokenizer.token_bytes)
    ids, text = [], ""
    for _ in range(limit):
        token_id = int(random.choice(allowed(matcher)))
        ids.append(token_id)
        detokenizer.push(SampledToken(token_id))
        assert matcher.consume_token(token_id)
        if matcher.is_stopped():
            detokenizer.finish()
            text, _ = detokenizer.take()
            return ids, text
    return None


def accepts(kind, grammar, text):
    """Whether a text, as the model writes it, is a whole answer of a grammar."""
    tokenizer, _, ll = opened(kind)
    matcher = matcher_of(ll, grammar)
    ids = tokenizer.encode_written(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def constraint(**kind):
    return constraint_grammar(Constraint(**kind))


SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b c", "\u00e9\U0001f917"]},
        "n": {"type": "integer", "minimum": -5, "maximum": 12},
        "ok": {"type": "boolean"},
    },
    "required": ["kind", "n", "ok"],
    "additionalProperties": False,
}


def test_answers_of_a_schema_are_json_that_satisfies_it(kind):
    grammar = constraint(json_schema=json.dumps(SCHEMA))
    for seed in range(20):
        ids, text = written(kind, grammar, seed)
        value = json.loads(text)
        assert list(value) == ["kind", "n", "ok"]
        assert value["kind"] in SCHEMA["properties"]["kind"]["enum"]
        assert -5 <= value["n"] <= 12
        assert ids[-1] == EOS_TOKEN_ID or text.endswith("}")


def test_white_space_is_one_blank_behind_commas_and_colons(kind):
    grammar = constraint(json_schema=json.dumps(SCHEMA))
    assert accepts(kind, grammar, '{"kind": "a", "n": 1, "ok": true}')
    for text in ('{"kind":"a","n":1,"ok":true}', '{"kind": "a",  "n": 1, "ok": true}'):
        assert not accepts(kind, grammar, text)


def test_any_object_is_a_json_object(kind):
    grammar = constraint(json_object=True)
    assert accepts(kind, grammar, '{"a": [1, null, {"b": "x\\n"}]}')
    assert accepts(kind, grammar, "{}")
    for text in ("[]", "1", '"a"', "{} "):
        assert not accepts(kind, grammar, text)


@pytest.mark.parametrize(
    ("regex", "text", "is_match"),
    [
        ("a/b", "a/b", True),
        (r"a\/b", "a/b", True),
        ("a\nb", "a\nb", True),
        (r"\\n", r"\n", True),
        (r"a\.b", "axb", False),
        ("(yes|no)", "yes", True),
        ("(yes|no)", "maybe", False),
        ("[a-z]{3}", "abcd", False),
        ('"', '"', True),
    ],
)
def test_a_regex_matches_the_whole_answer(regex, text, is_match):
    assert accepts("byte level", constraint(regex=regex), text) == is_match


def test_a_regex_can_not_leave_its_slashes():
    for regex in ("a/\nstart2: /b", "a/ | /b", "\\\n/"):
        grammar = json.loads(constraint(regex=regex).text)["grammars"][0]["lark_grammar"]
        assert "\n" not in grammar
        body = grammar.removeprefix("start: /").removesuffix("/")
        assert "/" not in body.replace("\\\\", "").replace("\\/", "")


def test_every_token_has_the_bytes_our_detokenizer_gives_it(kind):
    tokenizer, vocabulary, ll = opened(kind)
    assert ll.vocab_size == len(vocabulary.tokens)
    for token_id in range(len(vocabulary.tokens)):
        ours = tokenizer.token_bytes[token_id]
        if ours.startswith(b"\xff"):
            continue  # no UTF-8 begins so, and llguidance takes it for a control token
        if ours:
            assert ll.decode_bytes([token_id]) == ours
        elif token_id in tokenizer.control_tokens_by_id:
            assert ll.is_special_token(token_id)


def test_control_tokens_are_in_no_text_and_ids_without_bytes_neither(kind):
    tokenizer, vocabulary, ll = opened(kind)
    matcher = matcher_of(ll, constraint(lark="start: /(?s:.*)/"))
    free = set(allowed(matcher).tolist())
    assert EOS_TOKEN_ID in free
    without_bytes = {i for i in range(len(vocabulary.tokens)) if not tokenizer.token_bytes[i]}
    assert free & without_bytes == {EOS_TOKEN_ID}
    calls = {tokenizer.token_id(mark) for mark in ("<tool_call>", "</tool_call>")} - {None}
    assert calls <= free


def test_a_vocabulary_goes_to_another_process_whole(kind):
    _, vocabulary, _ = opened(kind)
    there = OutputVocabulary.from_bytes(vocabulary.to_bytes())
    assert list(there.tokens) == list(vocabulary.tokens)
    assert list(there.control_ids) == list(vocabulary.control_ids)
    assert list(there.eos_token_ids) == list(vocabulary.eos_token_ids)


OSLO = Tool(
    name="get_weather",
    parameters_json=json.dumps(
        {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    ),
)
OFF = Tool(name="off")


def tools(choice, *, is_parallel=False, name=""):
    return tools_grammar(
        ToolUse(tools=[OSLO, OFF], choice=choice, name=name, is_parallel=is_parallel)
    )


WEATHER = call_text("get_weather", '{"city": "Oslo"}')
TURN_OFF = call_text("off", "{}")
WRONG = (
    call_text("get_weather", '{"city": "Paris"}'),
    call_text("get_weather", "{}"),
    call_text("get_weather", '{"city": "Oslo", "day": 1}'),
    call_text("off", '{"city": "Oslo"}'),
    call_text("shoot", "{}"),
    f"{WEATHER} Done.",
    WEATHER[:-1],
)


def test_auto_is_text_or_text_and_calls(kind):
    one, several = tools(ToolChoice.TOOL_CHOICE_AUTO), tools(0, is_parallel=True)
    for grammar in (one, several):
        for text in ("", "Hello.\nIt rains < snow.", "a <tool_cal", WEATHER, f"Well. {TURN_OFF}"):
            assert accepts(kind, grammar, text)
        for text in WRONG:
            assert not accepts(kind, grammar, text)
            assert not accepts(kind, grammar, f"Well. {text}")
    both = WEATHER + BETWEEN + TURN_OFF
    assert accepts(kind, several, both)
    assert not accepts(kind, one, both)


def test_required_is_calls_alone(kind):
    grammar = tools(ToolChoice.TOOL_CHOICE_REQUIRED, is_parallel=True)
    for text in (WEATHER, TURN_OFF, WEATHER + BETWEEN + TURN_OFF):
        assert accepts(kind, grammar, text)
    for text in ("", "Hello.", f"Well. {WEATHER}", f"{WEATHER}\nHello.", *WRONG):
        assert not accepts(kind, grammar, text)


def test_named_is_calls_of_one(kind):
    grammar = tools(ToolChoice.TOOL_CHOICE_NAMED, name="off")
    assert accepts(kind, grammar, TURN_OFF)
    assert not accepts(kind, grammar, WEATHER)


def test_marks_are_written_as_control_tokens_where_the_vocabulary_has_them():
    tokenizer, _, _ = opened("call tokens")
    mark_id = tokenizer.token_id("<tool_call>")
    ids, text = written("call tokens", tools(ToolChoice.TOOL_CHOICE_REQUIRED), seed=3)
    # They are forced, and forced text is written as the tokenizer writes it.
    assert ids[0] == mark_id
    assert tokenizer.token_id("</tool_call>") in ids
    assert text.startswith("<tool_call>\n")
    assert text.endswith("</tool_call>")


def test_of_a_long_text_that_must_follow_a_part_is_encoded_at_a_time():
    text = "the 12 pleases, " * 300
    tokenizer, vocabulary, _ = opened("byte level")
    lengths = []

    def encode(part):
        lengths.append(len(part))
        return tokenizer.encode_written(part)

    matcher = matcher_of(
        vocabulary.open(encode), constraint(json_schema=json.dumps({"const": text}))
    )
    ids = []
    while not matcher.is_stopped():
        (token_id,) = allowed(matcher)
        ids.append(int(token_id))
        assert matcher.consume_token(ids[-1])
    assert b"".join(vocabulary.tokens[each] for each in ids).decode() == json.dumps(text)
    assert ids == tokenizer.encode_written(json.dumps(text))
    assert max(lengths) == 256
