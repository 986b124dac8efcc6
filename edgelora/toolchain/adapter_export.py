"""Takes an adapter along: as a plain PEFT directory, or as a GGUF file for llama.cpp.

Adapters are read as a node reads them, so what is exported is what is served, and what is not
served is refused for the same reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format import (
    AdapterConfig,
    AdapterWeights,
    ClassifierHead,
    read_adapter,
    read_encoder_adapter,
    read_tensors,
    recognise,
)
from edgelora.adapter_format.architecture import DECODER, ENCODER, Architecture
from edgelora.adapter_format.card import MAX_CARD_BYTES, parse_card
from edgelora.adapter_format.codec.layout import MAX_RANK
from edgelora.adapter_format.config import NO_TARGETS
from edgelora.adapter_format.config_parser import MAX_CONFIG_BYTES
from edgelora.adapter_format.head import MAX_HEAD_BYTES
from edgelora.adapter_format.tensor_file import write_tensors
from edgelora.adapter_upload import CARD_NAME, FILE_NAMES, HEAD_NAME, PROBE_NAME, file_sizes
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_lora import write_gguf_lora
from edgelora.toolchain.published_directory import published_directory, published_file
from services.adapter_store.verification.probes import MAX_PROBE_BYTES, read_probe
from services.chassis.base_model import (
    DEFAULT_ENCODER_NAME,
    DEFAULT_NAME,
    BaseModel,
    read_object,
)

_README = "README.md"
_MAX_README_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAdapter:
    """An adapter of a directory, read and checked against its base model."""

    directory: Path
    base_directory: Path
    base: BaseModel
    config: AdapterConfig
    weights: AdapterWeights
    head: ClassifierHead | None
    is_bare: bool
    """Trained on the bare model, without an output head, so that its paths are shorter."""

    @property
    def architecture(self) -> Architecture:
        """Of the base model."""
        return ENCODER if self.base.is_encoder else DECODER


def default_model(directory: Path) -> str:
    """Name of the default model of an adapter's kind. Raises AdapterRejectedError without files."""
    file_sizes(directory)
    is_encoders = recognise(*_files(directory)) is ENCODER
    return DEFAULT_ENCODER_NAME if is_encoders else DEFAULT_NAME


def read_local_adapter(directory: Path, base_directory: Path) -> LocalAdapter:
    """Reads an adapter for the prepared model in `base_directory`.

    Raises AdapterRejectedError and AdapterIncompatibleError as a node does, ToolchainError when the
    model is not prepared.
    """
    file_sizes(directory)
    config_data, weights_data = _files(directory)
    try:
        base = BaseModel.load(base_directory)
    except FileNotFoundError:
        raise ToolchainError(
            f"model {base_directory.name} is not prepared: "
            "`edgelora model list` shows those that are"
        ) from None
    except ValueError as error:
        raise ToolchainError(f"model {base_directory.name}: {error}") from error
    head = None
    if base.is_encoder:
        read = read_encoder_adapter(
            config_data,
            weights_data,
            _read(directory / HEAD_NAME, MAX_HEAD_BYTES),
            targets=base.targets,
            num_layers=base.num_layers,
            hidden_size=base.hidden_size,
            max_rank=MAX_RANK,
        )
        config, weights, head = read.config, read.weights, read.head
    else:
        config, weights = read_adapter(
            config_data,
            weights_data,
            targets=base.targets,
            num_layers=base.num_layers,
            max_rank=MAX_RANK,
        )
    architecture = ENCODER if base.is_encoder else DECODER
    matches = [architecture.factor.fullmatch(name) for name in read_tensors(weights_data)]
    return LocalAdapter(
        directory=directory,
        base_directory=base_directory,
        base=base,
        config=config,
        weights=weights,
        head=head,
        is_bare=any(one and not one[1].startswith(architecture.prefix) for one in matches),
    )


def _files(directory: Path) -> tuple[bytes, mmap]:
    """Config and weights; the latter mapped, so that a size that lies takes no memory."""
    config = _read(directory / FILE_NAMES[0], MAX_CONFIG_BYTES)
    with (directory / FILE_NAMES[1]).open("rb") as file:
        return config or b"", mmap(file.fileno(), 0, access=ACCESS_READ)


def _read(path: Path, most: int) -> bytes | None:
    """A file's bytes, no more than one beyond those its reader takes; None when there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(most + 1)


def _beside(adapter: LocalAdapter) -> dict[str, bytes]:
    """What goes with a PEFT directory as it is. Raises AdapterRejectedError as a node does.

    Who made the directory may have made links of its files: those that are checked can hold
    nothing else of this machine, and README.md, which is not, goes along as a file alone.
    """
    directory = adapter.directory
    found: dict[str, bytes | None] = {}
    if (card := _read(directory / CARD_NAME, MAX_CARD_BYTES)) is not None:
        parse_card(card)
        found[CARD_NAME] = card
    if (probe := _read(directory / PROBE_NAME, MAX_PROBE_BYTES)) is not None:
        read_probe(probe)
        found[PROBE_NAME] = probe
    if adapter.head is not None:
        found[HEAD_NAME] = _read(directory / HEAD_NAME, MAX_HEAD_BYTES)
    readme = directory / _README
    if not readme.is_symlink():
        text = _read(readme, _MAX_README_BYTES)
        if text is not None and len(text) > _MAX_README_BYTES:
            raise ToolchainError(f"{_README} is larger than {_MAX_README_BYTES} bytes: shorten it")
        found[_README] = text
    return {name: data for name, data in found.items() if data is not None}


def export_gguf(
    adapter: LocalAdapter, output: Path, *, half: bool = False, force: bool = False
) -> None:
    """Writes a file for llama.cpp, at once or not at all; equal adapters make equal bytes.

    See `write_gguf_lora`. Raises ToolchainError for an encoder's adapter, and when there is an
    `output` already, unless `force` replaces the file.
    """
    if adapter.base.is_encoder:
        raise ToolchainError(
            f"{adapter.base.name} is an encoder, and llama.cpp takes adapters of decoders alone: "
            "export with --format peft"
        )
    if output.exists() and not (force and output.is_file()):
        raise ToolchainError(
            f"{output} exists: choose another output"
            + (", or replace it with --force" if output.is_file() else "")
        )
    try:
        shape = read_object(adapter.base_directory / "config.json")
        heads, kv_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
    except (OSError, ValueError, LookupError) as error:
        raise ToolchainError(
            f"model {adapter.base.name} is damaged: run `edgelora model prepare --force`"
        ) from error
    output.parent.mkdir(parents=True, exist_ok=True)
    with published_file(output) as partial:
        write_gguf_lora(
            partial,
            adapter.weights,
            alpha=adapter.config.alpha,
            family=adapter.base.family,
            num_heads=heads,
            num_kv_heads=kv_heads,
            half=half,
        )


def export_peft(adapter: LocalAdapter, output: Path, *, force: bool = False) -> None:
    """Writes a directory as PEFT does, at once or not at all; equal adapters make equal bytes.

    Factors are in float32, exactly as they are served, under PEFT's names of today; the config has
    only what says something. Card, probe, head and README.md go along. Raises ToolchainError when
    there is an `output` already, unless `force` replaces the adapter there.
    """
    if output.exists():
        is_adapter = (output / FILE_NAMES[0]).is_file()
        if not is_adapter or adapter.directory.resolve().is_relative_to(output.resolve()):
            raise ToolchainError(f"{output} exists: choose another output")
        if not force:
            raise ToolchainError(f"{output} exists: choose another output, or add --force")
    beside = _beside(adapter)
    with published_directory(output) as partial:
        (partial / FILE_NAMES[0]).write_text(_peft_config(adapter), encoding="utf-8")
        (partial / FILE_NAMES[1]).write_bytes(write_tensors(_peft_tensors(adapter)))
        for name, data in beside.items():
            (partial / name).write_bytes(data)


def _peft_config(adapter: LocalAdapter) -> str:
    document: dict[str, Any] = json.loads(adapter.config.canonical_bytes())
    document |= {
        "base_model_name_or_path": adapter.base.name,
        "bias": "none",
        # Of the base while training; the factors are the same either way.
        "fan_in_fan_out": False,
        "inference_mode": True,
        "task_type": _task_type(adapter),
    }
    if not adapter.weights.pairs:
        document["target_modules"] = NO_TARGETS
    return json.dumps(document, indent=2) + "\n"


def _task_type(adapter: LocalAdapter) -> str | None:
    if adapter.base.is_encoder:
        return "SEQ_CLS" if adapter.head is not None else "FEATURE_EXTRACTION"
    return None if adapter.is_bare else "CAUSAL_LM"


def _peft_tensors(adapter: LocalAdapter) -> dict[str, NDArray[np.float32]]:
    tensors = {}
    for (layer, module), pair in sorted(adapter.weights.pairs.items()):
        path = adapter.architecture.path(layer, module, is_bare=adapter.is_bare)
        tensors[f"base_model.model.{path}.lora_A.weight"] = pair.lora_a
        tensors[f"base_model.model.{path}.lora_B.weight"] = pair.lora_b
    if adapter.head is not None:
        tensors["base_model.model.classifier.weight"] = adapter.head.weight
        tensors["base_model.model.classifier.bias"] = adapter.head.bias
    return tensors
