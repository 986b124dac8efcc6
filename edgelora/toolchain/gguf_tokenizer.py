"""Rebuilds `tokenizer.json` from the vocabulary that a GGUF file carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import TokenizerFiles

_CONTROL_TOKEN = 3
_USER_DEFINED_TOKEN = 4


def read_tokenizer(metadata: Mapping[str, Any]) -> TokenizerFiles:
    """Builds the tokenizer from GGUF metadata (`tokenizer.ggml.*`).

    Raises ToolchainError when the file carries no byte-level BPE vocabulary, or one whose way of
    splitting text is not known here.
    """
    kind = metadata.get("tokenizer.ggml.model")
    split = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or split not in _PRE_TOKENIZERS:
        raise ToolchainError(
            f"the file's tokenizer ({kind!r}, split {split!r}) cannot be rebuilt: "
            "prepare from the model's Hugging Face directory instead"
        )
    if metadata.get("tokenizer.ggml.add_bos_token", False):
        raise ToolchainError(
            "the file's tokenizer adds a start token by itself: "
            "prepare from the model's Hugging Face directory instead"
        )
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _PRE_TOKENIZERS[split]()
    tokenizer.decoder = decoders.ByteLevel()
    types = metadata.get("tokenizer.ggml.token_type", [])
    tokenizer.add_special_tokens(_added(tokens, types, _CONTROL_TOKEN))
    tokenizer.add_tokens(_added(tokens, types, _USER_DEFINED_TOKEN))

    def text(role: str) -> str | None:
        index = token_id(metadata, role)
        return None if index is None else tokens[index]

    return TokenizerFiles(
        document=tokenizer.to_str(pretty=False),
        bos_token=text("bos"),
        eos_token=text("eos") or "",
        pad_token=text("padding"),
        unk_token=text("unknown"),
        chat_template=metadata.get("tokenizer.chat_template"),
    )


def token_id(metadata: Mapping[str, Any], role: str) -> int | None:
    """The id of the token with a `role` (bos, eos, padding, unknown); None when there is none."""
    value = metadata.get(f"tokenizer.ggml.{role}_token_id")
    return None if value is None else int(value)


def _added(tokens: list[str], types: list[int], wanted: int) -> list[AddedToken]:
    special = wanted == _CONTROL_TOKEN
    return [
        AddedToken(token, special=special, normalized=False)
        for token, kind in zip(tokens, types, strict=False)
        if kind == wanted
    ]


def _smollm() -> pre_tokenizers.PreTokenizer:
    # SmolLM's vocabulary was trained with every digit a token of its own.
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


_PRE_TOKENIZERS = {"gpt-2": _gpt2, "smollm": _smollm}
