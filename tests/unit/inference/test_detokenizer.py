"""Text goes out whole: no half character, no start of a stop string, nothing lost at the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from services.inference.engine.detokenizer import Detokenizer
from services.inference.engine.sequence import SampledToken
from services.inference.engine.token_bytes import TokenBytes, UnsupportedTokenizerError
from tests.support.small_tokenizer import small_tokenizer

TOKENIZER = small_tokenizer()
TOKEN_BYTES = TokenBytes.from_tokenizer(TOKENIZER)
NUM_CONTROL = 3


def byte_ids(data: bytes) -> list[int]:
    """One token for each byte."""
    return [next(i for i in range(NUM_CONTROL, 259) if TOKEN_BYTES[i] == bytes([b])) for b in data]


def stream(ids, stops=(), token_bytes=TOKEN_BYTES):
    """Feeds ids one at a time; returns the deltas and the detokenizer."""
    detokenizer = Detokenizer(token_bytes, stops)
    deltas = []
    for token_id in ids:
        is_stopped = detokenizer.push(SampledToken(token_id))
        deltas.append(detokenizer.take())
        if is_stopped:
            break
    detokenizer.finish()
    deltas.append(detokenizer.take())
    return deltas, detokenizer


def text_of(deltas):
    return "".join(text for text, _ in deltas)


def ids_of(deltas):
    return [token.token_id for _, tokens in deltas for token in tokens]


def decoded(ids):
    return TOKENIZER.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    "text", ["합니다 🤗 我很", "日本の首都は東京です", "naïve café", "👩‍👩‍👧‍👦"]
)
def test_characters_of_many_tokens_arrive_whole_S01_S02(text):
    ids = byte_ids(text.encode())
    deltas, _ = stream(ids)
    assert text_of(deltas) == text == decoded(ids)
    assert all("\ufffd" not in piece for piece, _ in deltas)
    assert ids_of(deltas) == ids


def test_a_length_end_inside_a_character_gives_one_replacement_at_most_S03():
    ids = byte_ids("ok 🤗".encode()[:-2])
    deltas, _ = stream(ids)
    assert text_of(deltas) == "ok \ufffd" == decoded(ids)
    assert "\ufffd" not in text_of(deltas[:-1])


def test_an_output_that_begins_inside_a_character_holds_nothing_of_the_prompt_S04():
    pepper = "\U0001f336".encode()
    deltas, _ = stream(byte_ids(pepper[2:] + b" hot"))
    assert text_of(deltas).endswith(" hot")
    assert text_of(deltas) == decoded(byte_ids(pepper[2:] + b" hot"))


def test_no_piece_of_a_stop_string_is_sent_S06():
    ids = [*byte_ids(b"abc"), *byte_ids(b"DEFGHIJ"), *byte_ids(b"more")]
    deltas, detokenizer = stream(ids, ["DEFGHIJ"])
    assert text_of(deltas) == "abc"
    assert detokenizer.stop_string == "DEFGHIJ"
    assert ids_of(deltas) == ids[:3]


def test_a_stop_string_inside_one_token_is_cut_out():
    the = TOKENIZER.token_to_id("Ġthe")
    deltas, detokenizer = stream([the], ["h"])
    assert text_of(deltas) == " t"
    assert detokenizer.stop_string == "h"
    assert ids_of(deltas) == [the]


def test_text_held_for_a_stop_string_is_released_at_the_end_S13():
    ids = [*TOKENIZER.encode("ple").ids, *TOKENIZER.encode("as").ids]
    deltas, detokenizer = stream(ids, ["assistant"])
    assert text_of(deltas) == "pleas"
    assert text_of(deltas[:-1]) == "ple"
    assert detokenizer.stop_string is None
    assert ids_of(deltas) == ids


def test_a_false_start_is_released_as_soon_as_it_is_one():
    deltas, _ = stream(byte_ids(b"aab"), ["aaa"])
    assert [text for text, _ in deltas] == ["", "", "aab", ""]


def test_the_stop_string_that_ends_first_wins():
    deltas, detokenizer = stream(byte_ids(b"xabcd"), ["abcd", "bc"])
    assert text_of(deltas) == "xa"
    assert detokenizer.stop_string == "bc"


def test_control_tokens_are_no_text_but_are_counted():
    ids = [*byte_ids(b"a"), 1, *byte_ids(b"b")]
    deltas, _ = stream(ids)
    assert text_of(deltas) == "ab" == decoded(ids)
    assert ids_of(deltas) == ids


def test_ids_beyond_the_tokenizer_are_no_text():
    deltas, _ = stream([*byte_ids(b"a"), 10**6])
    assert text_of(deltas) == "a"


ids_strategy = st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=40)
stops_strategy = st.lists(st.text("abthe 🤗", min_size=1, max_size=4), max_size=3)


@given(ids_strategy)
def test_joined_deltas_equal_decoding_everything_S08(ids):
    deltas, _ = stream(ids)
    assert text_of(deltas) == decoded(ids)
    assert ids_of(deltas) == ids


def truncated(text, stops):
    """The text before the stop string whose end comes first."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@given(st.text("abthe 🤗ü", max_size=30), stops_strategy, st.booleans())
def test_joined_deltas_equal_the_text_up_to_the_first_stop_S06(text, stops, is_bytewise):
    ids = byte_ids(text.encode()) if is_bytewise else TOKENIZER.encode(text).ids
    deltas, detokenizer = stream(ids, stops)
    expected = truncated(text, stops)
    assert text_of(deltas) == expected
    assert (detokenizer.stop_string is not None) == (expected != text)
    sent = ids_of(deltas)
    assert sent == ids[: len(sent)]
    assert text_of(deltas).startswith(decoded(sent)[: len(expected)])


def sentencepiece_like():
    vocab = {"<unk>": 0, "▁Hello": 1, "▁don": 2, "'": 3, "t": 4, "▁": 5}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([1, 2, 3, 4], "Hello don't"),
        ([5, 1], " Hello"),
        ([6 + byte for byte in "é🤗".encode()] + [1], "é🤗 Hello"),
    ],
)
def test_sentencepiece_style_tokens_are_spelled_alike_S08(ids, text):
    tokenizer = sentencepiece_like()
    deltas, _ = stream(ids, token_bytes=TokenBytes.from_tokenizer(tokenizer))
    assert text_of(deltas) == text == tokenizer.decode(ids)


def test_an_unknown_decoder_is_refused_at_start():
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedTokenizerError, match="WordPiece"):
        TokenBytes.from_tokenizer(tokenizer)
