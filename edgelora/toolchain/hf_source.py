"""Reads a model from a local Hugging Face directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgelora.toolchain.bert_shape import FAMILY
from edgelora.toolchain.bert_source import open_bert
from edgelora.toolchain.decoder_shape import ARCHITECTURES, is_count
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_config import read_shape
from edgelora.toolchain.hf_files import (
    read_json,
    read_text,
    read_tokenizer_document,
    source_digest,
    token_text,
    tokenizer_vocabulary,
    weight_files,
)
from edgelora.toolchain.model_source import (
    EncoderSource,
    ModelSource,
    TokenizerFiles,
    match_tensors,
)
from edgelora.toolchain.template_source import read_template
from edgelora.toolchain.tensor_files import open_tensors


def open_directory(directory: Path) -> ModelSource | EncoderSource:
    """Opens a directory with config.json, safetensors and tokenizer.json.

    Raises ToolchainError for what cannot be served.
    """
    config = read_json(directory / "config.json")
    family = config.get("model_type")
    if family == FAMILY:
        return open_bert(directory, config)
    if not isinstance(family, str) or family not in ARCHITECTURES:
        raise ToolchainError(
            f"{directory.name}/config.json has model_type {family!r}; "
            f"supported: {', '.join([*ARCHITECTURES, FAMILY])}"
        )
    files = weight_files(directory)
    stored = {name: tensor for path in files for name, tensor in open_tensors(path).items()}
    shape = read_shape(config)
    # Old checkpoints also store the rotary table, and a copy of tied embeddings.
    spare = {name for name in stored if name.endswith("rotary_emb.inv_freq")}
    if shape.tied_embeddings:
        spare.add("lm_head.weight")
    return ModelSource(
        digest=source_digest([directory / "config.json", *files]),
        shape=shape,
        config=shape.config(
            bos=_token_id(config, "bos_token_id", shape.vocab_size),
            eos=_eos_ids(directory, config, shape.vocab_size),
            pad=_token_id(config, "pad_token_id", shape.vocab_size),
        ),
        tokenizer=_read_tokenizer(directory, shape.vocab_size),
        tensors=match_tensors(
            shape, {name: tensor for name, tensor in stored.items() if name not in spare}
        ),
    )


def _token_id(config: dict[str, Any], name: str, vocab_size: int) -> int | None:
    """An optional token; old checkpoints say -1, or one beyond the vocabulary, for none."""
    value = config.get(name)
    if value is not None and not is_count(value):
        raise ToolchainError(f"config.json: {name} is not the id of a token")
    return value if value is not None and 0 <= value < vocab_size else None


def _eos_ids(directory: Path, config: dict[str, Any], vocab_size: int) -> list[int]:
    generation = directory / "generation_config.json"
    eos = read_json(generation).get("eos_token_id") if generation.is_file() else None
    eos = config.get("eos_token_id") if eos is None else eos
    if eos is None:
        raise ToolchainError("config.json names no eos_token_id")
    ids = eos if isinstance(eos, list) else [eos]
    if not ids or not all(is_count(one) and 0 <= one < vocab_size for one in ids):
        raise ToolchainError(f"eos_token_id must be ids of tokens, from 0 to {vocab_size - 1}")
    return ids


def _read_tokenizer(directory: Path, vocab_size: int) -> TokenizerFiles:
    document = read_tokenizer_document(directory)
    vocabulary = tokenizer_vocabulary(document, vocab_size)
    config = read_json(directory / "tokenizer_config.json")
    eos = token_text(config.get("eos_token"))
    if eos is None:
        raise ToolchainError("tokenizer_config.json names no eos_token")
    if eos not in vocabulary:
        raise ToolchainError("tokenizer_config.json: eos_token is none of tokenizer.json")
    return TokenizerFiles(
        document=document,
        bos_token=token_text(config.get("bos_token")),
        eos_token=eos,
        pad_token=token_text(config.get("pad_token")),
        unk_token=token_text(config.get("unk_token")),
        chat_template=_chat_template(directory, config),
    )


def _chat_template(directory: Path, config: dict[str, Any]) -> str | None:
    separate = directory / "chat_template.jinja"
    if separate.is_file():
        return read_template(read_text(separate))
    return read_template(config.get("chat_template"))
