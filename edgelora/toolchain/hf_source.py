"""Reads a model from a local Hugging Face directory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgelora.toolchain.decoder_shape import ARCHITECTURES
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_config import read_shape
from edgelora.toolchain.model_source import ModelSource, TokenizerFiles, match_tensors
from edgelora.toolchain.tensor_files import open_tensors
from services.chassis.base_model import file_digest


def open_directory(directory: Path) -> ModelSource:
    """Opens a directory with config.json, safetensors and tokenizer.json.

    Raises ToolchainError for what cannot be served.
    """
    config = _read_json(directory / "config.json")
    family = config.get("model_type")
    if family not in ARCHITECTURES:
        raise ToolchainError(
            f"{directory.name}/config.json has model_type {family!r}; "
            f"supported: {', '.join(ARCHITECTURES)}"
        )
    files = _weight_files(directory)
    stored = {name: tensor for path in files for name, tensor in open_tensors(path).items()}
    shape = read_shape(config)
    # Old checkpoints also store the rotary table, and a copy of tied embeddings.
    spare = {name for name in stored if name.endswith("rotary_emb.inv_freq")}
    if shape.tied_embeddings:
        spare.add("lm_head.weight")
    return ModelSource(
        digest=_digest([directory / "config.json", *files]),
        shape=shape,
        config=shape.config(
            bos=config.get("bos_token_id"),
            eos=_eos_ids(directory, config),
            pad=config.get("pad_token_id"),
        ),
        tokenizer=_read_tokenizer(directory, shape.vocab_size),
        tensors=match_tensors(
            shape, {name: tensor for name, tensor in stored.items() if name not in spare}
        ),
    )


def _digest(files: list[Path]) -> str:
    """Over the lines "NAME DIGEST" of the files, by name."""
    lines = sorted(f"{path.name} {file_digest(path)}\n" for path in files)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ToolchainError(
            f"{path.parent.name} has no {path.name}: copy the whole model"
        ) from error
    except ValueError as error:
        raise ToolchainError(f"{path.name} is not JSON: copy it again") from error
    if not isinstance(document, dict):
        raise ToolchainError(f"{path.name} is not a JSON object: copy it again")
    return document


def _weight_files(directory: Path) -> list[Path]:
    single = directory / "model.safetensors"
    if single.is_file():
        return [single]
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        raise ToolchainError(
            f"{directory.name} has no model.safetensors: save the model as safetensors "
            "(pickle files are never opened)"
        )
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ToolchainError(f"{index.name} has no weight_map: copy it again")
    # The index is data from elsewhere: it may not lead out of the directory.
    files = [directory / name for name in sorted({Path(str(p)).name for p in weight_map.values()})]
    for path in files:
        if not path.is_file():
            raise ToolchainError(f"{directory.name} lacks {path.name}: copy the whole model")
    return files


def _eos_ids(directory: Path, config: dict[str, Any]) -> list[int]:
    generation = directory / "generation_config.json"
    eos = _read_json(generation).get("eos_token_id") if generation.is_file() else None
    eos = config.get("eos_token_id") if eos is None else eos
    if eos is None:
        raise ToolchainError("config.json names no eos_token_id")
    return [int(one) for one in (eos if isinstance(eos, list) else [eos])]


def _read_tokenizer(directory: Path, vocab_size: int) -> TokenizerFiles:
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ToolchainError(f"{directory.name} has no tokenizer.json: save a fast tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ToolchainError("tokenizer.json cannot be read: copy it again") from error
    if tokenizer.get_vocab_size() > vocab_size:
        raise ToolchainError(
            f"tokenizer.json has {tokenizer.get_vocab_size()} tokens, the model only {vocab_size}"
        )
    config = _read_json(directory / "tokenizer_config.json")
    eos = _token_text(config.get("eos_token"))
    if eos is None:
        raise ToolchainError("tokenizer_config.json names no eos_token")
    return TokenizerFiles(
        document=path.read_text(encoding="utf-8"),
        bos_token=_token_text(config.get("bos_token")),
        eos_token=eos,
        pad_token=_token_text(config.get("pad_token")),
        unk_token=_token_text(config.get("unk_token")),
        chat_template=_chat_template(directory, config),
    )


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _chat_template(directory: Path, config: dict[str, Any]) -> str | None:
    separate = directory / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        # Several named templates: the one called "default" is the chat.
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
