"""Reads a llama-type model from a local Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.llama_layout import FAMILY, LlamaShape
from edgelora.toolchain.model_source import TokenizerFiles
from edgelora.toolchain.tensor_files import StoredTensor, open_tensors


class HuggingFaceModel:
    """A directory with config.json, safetensors and tokenizer.json as a ModelSource."""

    def __init__(self, directory: Path) -> None:
        """Reads everything but the weights. Raises ToolchainError for what it cannot serve."""
        config = _read_json(directory / "config.json")
        kind = config.get("model_type")
        if kind != FAMILY:
            raise ToolchainError(
                f"{directory.name}/config.json has model_type {kind!r}; supported: {FAMILY!r}"
            )
        self._stored = _open_weights(directory)
        self.shape = _read_shape(config)
        self.tokenizer = _read_tokenizer(directory, self.shape.vocab_size)
        self.config = self.shape.config(
            bos=config.get("bos_token_id"),
            eos=_eos_ids(directory, config),
            pad=config.get("pad_token_id"),
        )

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yields every tensor as fp32; see ModelSource."""
        wanted = self.shape.tensors()
        # Old checkpoints also store the rotary table, and a copy of tied embeddings.
        spare = {name for name in self._stored if name.endswith("rotary_emb.inv_freq")}
        if self.shape.tied_embeddings:
            spare.add("lm_head.weight")
        if unknown := sorted(self._stored.keys() - wanted.keys() - spare):
            raise ToolchainError(
                f"the model holds {len(unknown)} tensors this release does not know, "
                f"for example {unknown[0]!r}: it is no plain {FAMILY} decoder"
            )
        for name in wanted:
            if name not in self._stored:
                raise ToolchainError(f"the model lacks tensor {name!r}: copy it again")
            yield name, self._stored[name].float32()


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


def _open_weights(directory: Path) -> dict[str, StoredTensor]:
    single = directory / "model.safetensors"
    if single.is_file():
        return open_tensors(single)
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        raise ToolchainError(
            f"{directory.name} has no model.safetensors: save the model as safetensors "
            "(pickle files are never opened)"
        )
    tensors: dict[str, StoredTensor] = {}
    for part in sorted(set(_read_json(index).get("weight_map", {}).values())):
        # The index is data from elsewhere: it may not lead out of the directory.
        path = directory / Path(part).name
        if not path.is_file():
            raise ToolchainError(f"{directory.name} lacks {path.name}: copy the whole model")
        tensors |= open_tensors(path)
    return tensors


def _read_shape(config: dict[str, Any]) -> LlamaShape:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise ToolchainError("the model scales its rotary positions: not supported yet")
    for flag in ("attention_bias", "mlp_bias"):
        if config.get(flag, False):
            raise ToolchainError(f"the model has {flag}: not supported yet")
    if config.get("hidden_act", "silu") != "silu":
        raise ToolchainError(
            f"the model's hidden_act is {config['hidden_act']!r}, supported: 'silu'"
        )
    try:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return LlamaShape(
            vocab_size=int(config["vocab_size"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            num_layers=int(config["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            max_context_tokens=int(config["max_position_embeddings"]),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta", 10000.0)),
            rms_norm_eps=float(config["rms_norm_eps"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        )
    except KeyError as error:
        raise ToolchainError(f"config.json lacks {error.args[0]!r}") from error
    except (TypeError, ValueError) as error:
        raise ToolchainError("config.json has a size that is not a number") from error


def _eos_ids(directory: Path, config: dict[str, Any]) -> int | list[int]:
    generation = directory / "generation_config.json"
    eos = _read_json(generation).get("eos_token_id") if generation.is_file() else None
    eos = config.get("eos_token_id") if eos is None else eos
    if eos is None:
        raise ToolchainError("config.json names no eos_token_id")
    return [int(one) for one in eos] if isinstance(eos, list) else int(eos)


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
