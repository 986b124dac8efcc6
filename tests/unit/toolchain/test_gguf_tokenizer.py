"""Tokenizers rebuilt from GGUF metadata give the ids of the libraries their models come from."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter

from edgelora.toolchain.byte_level_bpe import PRE_TOKENIZERS
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_tokenizer import GgufVocabulary
from services.inference.tokenizer import TextTokenizer
from tests.support.prepared_model import ROOT

CORPUS = [path.read_text() for path in (ROOT / "README.md", ROOT / "docs" / "architecture.md")]
TEXTS = (
    "Hello world, this is a test of 12345 tokens and 3.14!",
    "  leading spaces\n\n\tand tabs  \r\n  ",
    "naïve cafe\u0301, Ünïcode, 你好, 🙂 and \u200b",
    "don't we'll I'm CAN'T def f(x):\n    return x ** 2  # comment",
    "the adapter's gateway",
    "",
)


@pytest.fixture(scope="module")
def byte_level() -> dict[str, Any]:
    """Metadata of a small byte-level vocabulary; ids 0 and 1 are control tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<s>", "<e>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    state = json.loads(tokenizer.to_str())
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": vocabulary,
        "tokenizer.ggml.merges": [" ".join(merge) for merge in state["model"]["merges"]],
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(vocabulary) - 2),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
    }


def rebuilt(metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_str(GgufVocabulary.read(metadata).files().document)


def test_qwen2_ids_are_those_of_transformers(byte_level):
    ours = rebuilt({**byte_level, "tokenizer.ggml.pre": "qwen2"})
    theirs = Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate(byte_level["tokenizer.ggml.tokens"])},
        merges=[tuple(merge.split(" ")) for merge in byte_level["tokenizer.ggml.merges"]],
        unk_token=None,
        eos_token="<e>",
        pad_token="<e>",
    )
    for text in TEXTS:
        ids = ours.encode(text).ids
        assert ids == theirs(text)["input_ids"]
        assert ours.decode(ids) == theirs.decode(ids)


def test_llama_bpe_splits_as_the_published_pattern_does():
    published = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(TikTokenConverter().pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    for text in TEXTS:
        assert PRE_TOKENIZERS["llama-bpe"].pre_tokenize_str(text) == published.pre_tokenize_str(
            text
        )


def test_llama_bpe_takes_whole_words_of_the_vocabulary_without_merging(byte_level):
    """Llama 3 looks a word up before it merges."""
    tokens = [*byte_level["tokenizer.ggml.tokens"], "qxqxqx"]
    changed = {**byte_level, "tokenizer.ggml.tokens": tokens}
    ours = rebuilt({**changed, "tokenizer.ggml.pre": "llama-bpe"})
    assert ours.encode("qxqxqx", add_special_tokens=False).ids == [len(tokens) - 1]
    other = rebuilt({**changed, "tokenizer.ggml.pre": "qwen2"})
    assert len(other.encode("qxqxqx").ids) > 1


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({"tokenizer.ggml.pre": "llama-bpe"}, True),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, False),
        ({"tokenizer.ggml.pre": "qwen2"}, False),
        ({"tokenizer.ggml.pre": "smollm", "tokenizer.ggml.add_bos_token": True}, True),
    ],
)
def test_text_begins_with_the_start_token_where_the_model_wants_it(byte_level, changes, starts):
    ids = rebuilt({**byte_level, **changes}).encode("the").ids
    assert (ids[0] == 0) is starts
    assert 0 not in rebuilt({**byte_level, **changes}).encode("the", add_special_tokens=False).ids


@pytest.mark.parametrize("has_space_prefix", [True, False])
def test_sentence_piece_ids_are_those_of_its_own_library(tmp_path: Path, has_space_prefix: bool):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.splitlines()),
        model_writer=file,
        vocab_size=800,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=has_space_prefix,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    pieces = range(theirs.vocab_size())
    kinds = [3 if theirs.is_control(i) else 6 if theirs.is_byte(i) else 1 for i in pieces]
    files = GgufVocabulary.read(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": [theirs.id_to_piece(i) for i in pieces],
            "tokenizer.ggml.scores": [theirs.get_score(i) for i in pieces],
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.bos_token_id": theirs.bos_id(),
            "tokenizer.ggml.eos_token_id": theirs.eos_id(),
            "tokenizer.ggml.unknown_token_id": theirs.unk_id(),
            "tokenizer.ggml.add_space_prefix": has_space_prefix,
        }
    ).files()
    ours = Tokenizer.from_str(files.document)
    for text in TEXTS:
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == theirs.encode(text)
        assert ours.encode(text).ids == [theirs.bos_id(), *ids]
        assert ours.decode(ids) == theirs.decode(ids)
    # What a worker streams: the bytes of each token.
    spelled = TextTokenizer(files.document).token_bytes
    assert spelled.strips_first_space is has_space_prefix
    text = TEXTS[2]
    streamed = b"".join(spelled[i] for i in ours.encode(text, add_special_tokens=False).ids)
    assert streamed.decode() == (" " + text if has_space_prefix else text)


def test_end_of_turn_ends_a_generation_too(byte_level):
    vocabulary = GgufVocabulary.read({**byte_level, "tokenizer.ggml.eot_token_id": 5})
    assert vocabulary.end_ids() == [1, 5]
    only_turn = {**byte_level, "tokenizer.ggml.eot_token_id": 5}
    del only_turn["tokenizer.ggml.eos_token_id"]
    assert (
        GgufVocabulary.read(only_turn).files().eos_token == byte_level["tokenizer.ggml.tokens"][5]
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tokenizer.ggml.model": "bert"}, r"'bert'.*is not supported; supported: 'llama'"),
        ({"tokenizer.ggml.pre": "deepseek-v3"}, r"split 'deepseek-v3'\) is not supported"),
        ({"tokenizer.ggml.tokens": None}, "carries no vocabulary"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "carries no vocabulary"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "names a token twice"),
        ({"tokenizer.ggml.merges": ["a zzz"]}, "vocabulary is damaged"),
        ({"tokenizer.ggml.merges": ["a"]}, "vocabulary is damaged"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0]}, "is damaged"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "eos token is none of its vocabulary"),
        ({"tokenizer.ggml.eos_token_id": -1}, "eos token is none of its vocabulary"),
        ({"tokenizer.ggml.eos_token_id": None}, "names no end-of-sequence token"),
        (
            {"tokenizer.ggml.bos_token_id": None, "tokenizer.ggml.add_bos_token": True},
            "names no start token",
        ),
    ],
)
def test_vocabulary_that_cannot_be_rebuilt_is_refused(byte_level, changes, told):
    with pytest.raises(ToolchainError, match=told):
        GgufVocabulary.read({**byte_level, **changes}).files()
