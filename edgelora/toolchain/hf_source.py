"""Reads a model from a local Hugging Face directory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgelora.toolchain.decoder_shape import ARCHITECTURES, is_count
from edgelora.toolchain.errors import ToolchainError, refusing
from edgelora.toolchain.hf_config import read_shape
from edgelora.toolchain.model_source import ModelSource, TokenizerFiles, match_tensors
from edgelora.toolchain.template_source import read_template
from edgelora.toolchain.tensor_files import open_tensors
from services.chassis.base_model import file_digest


def open_directory(directory: Path) -> ModelSource:
    """Opens a directory with config.json, safetensors and tokenizer.json.

    Raises ToolchainError for what cannot be served.
    """
    config = _read_json(directory / "config.json")
    family = config.get("model_type")
    if not isinstance(family, str) or family not in ARCHITECTURES:
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
            bos=_token_id(config, "bos_token_id", shape.vocab_size),
            eos=_eos_ids(directory, config, shape.vocab_size),
            pad=_token_id(config, "pad_token_id", shape.vocab_size),
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
        document = json.loads(_read_text(path))
        # JSON can spell halves of characters, which no file can hold.
        json.dumps(document, ensure_ascii=False).encode()
    except ToolchainError:
        raise
    except (ValueError, RecursionError) as error:
        raise ToolchainError(f"{path.name} is not JSON: copy it again") from error
    if not isinstance(document, dict):
        raise ToolchainError(f"{path.name} is not a JSON object: copy it again")
    return document


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ToolchainError(
            f"{path.parent.name} has no {path.name}: copy the whole model"
        ) from error
    except OSError as error:
        raise ToolchainError(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolchainError(f"{path.name} is not UTF-8: copy it again") from error


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


def _token_id(config: dict[str, Any], name: str, vocab_size: int) -> int | None:
    """An optional token; old checkpoints say -1, or one beyond the vocabulary, for none."""
    value = config.get(name)
    if value is not None and not is_count(value):
        raise ToolchainError(f"config.json: {name} is not the id of a token")
    return value if value is not None and 0 <= value < vocab_size else None


def _eos_ids(directory: Path, config: dict[str, Any], vocab_size: int) -> list[int]:
    generation = directory / "generation_config.json"
    eos = _read_json(generation).get("eos_token_id") if generation.is_file() else None
    eos = config.get("eos_token_id") if eos is None else eos
    if eos is None:
        raise ToolchainError("config.json names no eos_token_id")
    ids = eos if isinstance(eos, list) else [eos]
    if not ids or not all(is_count(one) and 0 <= one < vocab_size for one in ids):
        raise ToolchainError(f"eos_token_id must be ids of tokens, from 0 to {vocab_size - 1}")
    return ids


def _read_tokenizer(directory: Path, vocab_size: int) -> TokenizerFiles:
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ToolchainError(f"{directory.name} has no tokenizer.json: save a fast tokenizer")
    document = _read_text(path)
    with refusing("tokenizer.json cannot be read: copy it again"):
        vocabulary: dict[str, int] = Tokenizer.from_str(document).get_vocab()
    # Ids may have gaps.
    num_tokens = max(vocabulary.values(), default=-1) + 1
    if num_tokens > vocab_size:
        raise ToolchainError(f"tokenizer.json has {num_tokens} tokens, the model only {vocab_size}")
    config = _read_json(directory / "tokenizer_config.json")
    eos = _token_text(config.get("eos_token"))
    if eos is None:
        raise ToolchainError("tokenizer_config.json names no eos_token")
    if eos not in vocabulary:
        raise ToolchainError("tokenizer_config.json: eos_token is none of tokenizer.json")
    return TokenizerFiles(
        document=document,
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
        return read_template(_read_text(separate))
    return read_template(config.get("chat_template"))
