"""Prompts have exactly the asked number of tokens and share nothing."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from bench import prompts
from bench.prompts import PromptWriter
from bench.result import BenchError


@pytest.fixture
def model_directory(tmp_path, monkeypatch):
    """A byte-level tokenizer of 27 whole words, beside pieces that must not be used."""
    words = [f"Ġ{letter * 3}" for letter in "abcdefghijklmnopqrstuvwxyz"] + ["Ġthe"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    merges = []
    for word in words:
        built = word[0]
        for letter in word[1:]:
            merges.append((built, letter))
            built += letter
            vocabulary.setdefault(built, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setattr(prompts, "_MIN_WORDS", 20)
    return tmp_path


def test_a_prompt_of_n_tokens_is_n_tokens(model_directory):
    writer = PromptWriter(model_directory)
    assert len(writer.words) == 27
    for length in (1, 2, 64, 200):
        assert writer.count_tokens(writer.write(length, "seed")) == length


def test_seeds_give_distinct_prompts_again_and_again(model_directory):
    writer = PromptWriter(model_directory)
    texts = {writer.write(32, f"request {number}") for number in range(200)}
    assert len(texts) == 200
    assert writer.write(32, "request 1") == PromptWriter(model_directory).write(32, "request 1")
    assert len({text[:12] for text in texts}) > 150


def test_a_missing_tokenizer_says_how_to_get_one(tmp_path):
    with pytest.raises(BenchError, match="edgelora model prepare"):
        PromptWriter(tmp_path)


def test_a_vocabulary_without_words_is_refused(model_directory, monkeypatch):
    monkeypatch.setattr(prompts, "_MIN_WORDS", 28)
    with pytest.raises(BenchError, match="too few plain words"):
        PromptWriter(model_directory).write(4, "seed")
