"""Texts become token ids: special tokens added, none taken from the text, cut at the context."""

import asyncio

import pytest

from services.inference.encoder.text_reader import TextReader
from tests.support.tiny_encoder import tiny_tokenizer


@pytest.fixture
def reader():
    reader = TextReader(tiny_tokenizer().to_str(), 32)
    yield reader
    reader.close()


def spelled(read):
    tokenizer = tiny_tokenizer()
    return [tokenizer.id_to_token(token_id) for token_id in read.token_ids.tolist()]


def test_special_tokens_stand_around_a_text_and_nothing_is_padded(reader):
    read = reader.read_one("Tell me")
    assert spelled(read) == ["[CLS]", "tell", "me", "[SEP]"]
    assert not read.is_cut


def test_what_a_user_writes_is_never_a_special_token(reader):
    tokens = spelled(reader.read_one("[SEP] [MASK][CLS]"))
    assert tokens[0] == "[CLS]"
    assert tokens[-1] == "[SEP]"
    assert not {"[CLS]", "[SEP]", "[MASK]", "[PAD]"} & set(tokens[1:-1])


def test_a_text_is_cut_at_the_context_of_the_encoder_not_of_its_tokenizer(reader):
    # The file says 16.
    assert len(reader.read_one("tell " * 30).token_ids) == 32
    assert not reader.read_one("tell " * 30).is_cut
    longer = reader.read_one("tell " * 31)
    assert len(longer.token_ids) == 32
    assert longer.is_cut
    assert spelled(longer)[-1] == "[SEP]"


@pytest.mark.parametrize(
    "text",
    ["tell  me" + " " * 5000 + "about", "x" * 5000 + " tell me", "x" * 600 + "\ntell me", ""],
)
def test_what_lies_far_behind_is_read_where_it_counts(reader, text):
    tokenizer = tiny_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    assert reader.read_one(text).token_ids.tolist() == tokenizer.encode(text).ids


async def test_threads_give_the_same_as_the_event_loop(reader):
    texts = ["tell me", "play some song " * 200]
    assert [each.token_ids.tolist() for each in await reader.read(texts)] == [
        reader.read_one(text).token_ids.tolist() for text in texts
    ]
    assert (await reader.read(texts, is_urgent=False))[1].is_cut


@pytest.mark.parametrize("is_urgent", [True, False])
async def test_a_request_of_many_long_texts_lets_others_in_between(reader, is_urgent):
    ended = []

    async def read(name, texts):
        await reader.read(texts, is_urgent=is_urgent)
        ended.append(name)

    await asyncio.gather(read("many", ["x" * 4000] * 8), read("one", ["x" * 4000]))
    assert ended == ["one", "many"]


async def test_who_leaves_has_no_further_texts_read(reader, monkeypatch):
    texts_read = []
    monkeypatch.setattr(reader, "read_one", texts_read.append)
    reading = asyncio.create_task(reader.read([f"{number:<4000}" for number in range(8)]))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await reader.read(["behind them all" * 1000])
    assert len(texts_read) <= 2


def test_a_damaged_file_is_told_with_the_remedy():
    with pytest.raises(ValueError, match="prepare the model again"):
        TextReader("{", 32)
