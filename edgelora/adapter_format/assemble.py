"""From a config and named tensors to `AdapterWeights`: everything fits, or nothing is served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.naming import shown, suffixes
from edgelora.adapter_format.tensor_file import FILE, Buffer, read_tensors
from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from edgelora.error_tree import AdapterIncompatibleError, AdapterRejectedError

MAX_MAGNITUDE = 65504.0
"""The float16 range. With alpha and rank bounded too, every update stays finite in float32."""

_PARENTS = {
    "q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn",
    "gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp",
}  # fmt: skip
"""Where Llama-type decoders (Llama, SmolLM2, Mistral, Qwen2, Qwen3) keep their linear modules."""

# `model.` is absent when the adapter was trained on the decoder without its output head.
FACTOR = re.compile(
    r"base_model\.model\.((?:model\.)?layers\.(0|[1-9][0-9]{0,3})\.([a-z_]+)\.([a-z0-9_]+))"
    r"\.lora_([AB])\.(?:default\.)?weight"
)
"""Groups: path, layer, parent, module, factor."""

_FULL_COPIES = ("embed_tokens.weight", "lm_head.weight")
"""PEFT saves them too once the vocabulary has grown."""

Tensor = NDArray[np.floating[Any]]
ModuleKey = tuple[int, str]


def read_adapter(
    config: bytes,
    weights: Buffer,
    *,
    targets: Mapping[str, tuple[int, int]],
    num_layers: int,
    max_rank: int,
) -> tuple[AdapterConfig, AdapterWeights]:
    """Reads both files of an adapter and checks them against a base model.

    `config` and `weights` are the bytes of adapter_config.json and adapter_model.safetensors;
    `targets` maps module names to (out_features, in_features). The result shares no memory with
    `weights`. The config is judged alone first, so that a rank over the cap costs nothing.

    Raises AdapterRejectedError for a malformed or unsupported adapter and
    AdapterIncompatibleError for one that belongs to another base model.
    """
    parsed = parse_adapter_config(config, max_rank=max_rank)
    tensors = read_tensors(weights)
    return parsed, assemble(parsed, tensors, targets=targets, num_layers=num_layers)


def assemble(
    config: AdapterConfig,
    tensors: Mapping[str, Tensor],
    *,
    targets: Mapping[str, tuple[int, int]],
    num_layers: int,
) -> AdapterWeights:
    """Pairs the factors, checks coverage, shapes and values, and computes the scalings.

    Every tensor has to be used, every module the config names has to exist in the base model and
    to have both factors, and the whole has to change something. Raises as `read_adapter`.
    """
    _check_targets(config, targets, num_layers)
    factors, paths = _sort_factors(tensors, targets, num_layers)
    _check_coverage(config, factors, paths, targets, num_layers)
    pairs: dict[ModuleKey, LoraPair] = {}
    for key in sorted(paths):
        path = paths[key]
        out_features, in_features = targets[key[1]]
        rank = config.rank_of(path)
        lora_a = _checked(factors[key, "A"], f"{path}.lora_A", (rank, in_features))
        lora_b = _checked(factors[key, "B"], f"{path}.lora_B", (out_features, rank))
        pairs[key] = LoraPair(lora_a, lora_b, config.scaling_of(path))
    if not any(pair.lora_a.any() and pair.lora_b.any() for pair in pairs.values()):
        raise _refuse("one factor of every module is all zeros: the adapter would change nothing")
    return AdapterWeights(pairs)


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE}: {why}", field="weights")


def _path(layer: int, module: str) -> str:
    return f"model.layers.{layer}.{_PARENTS[module]}.{module}"


def _listed(names: set[str]) -> str:
    told = sorted(shown(name) for name in names)
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def _check_targets(
    config: AdapterConfig, targets: Mapping[str, tuple[int, int]], num_layers: int
) -> None:
    # A name may be a tail of a path, so it is looked for among all tails of all paths.
    known = {
        suffix
        for module in targets
        if module in _PARENTS
        for layer in range(num_layers)
        for suffix in suffixes(_path(layer, module))
    }
    if not isinstance(config.target_modules, str):
        absent = set(config.target_modules - known)
        if absent:
            raise AdapterIncompatibleError(
                f"adapter_config.json: target_modules: the base model does not serve "
                f"{_listed(absent)}; it serves {_listed(set(targets))}: train on those alone",
                field="config.target_modules",
            )
    for key, pattern in (
        ("rank_pattern", config.rank_pattern),
        ("alpha_pattern", config.alpha_pattern),
    ):
        # To PEFT a dot stands for any character, so that such a key could match what we would not.
        absent = {name for name in pattern if "." in name and name.removeprefix("^") not in known}
        if absent:
            raise AdapterIncompatibleError(
                f"adapter_config.json: {key}: the base model has no {_listed(absent)}: "
                "use the names of its modules",
                field=f"config.{key}",
            )
    layers = config.layers_to_transform or ()
    if any(layer >= num_layers for layer in layers):
        raise AdapterIncompatibleError(
            f"adapter_config.json: layers_to_transform: the base model has {num_layers} layers",
            field="config.layers_to_transform",
        )


def _sort_factors(
    tensors: Mapping[str, Tensor], targets: Mapping[str, tuple[int, int]], num_layers: int
) -> tuple[dict[tuple[ModuleKey, str], Tensor], dict[ModuleKey, str]]:
    """Keys every tensor by its module and factor; any that is no factor of ours is refused."""
    factors: dict[tuple[ModuleKey, str], Tensor] = {}
    paths: dict[ModuleKey, str] = {}
    for name, tensor in tensors.items():
        match = FACTOR.fullmatch(name)
        if match is None:
            why = f"{shown(name)} is no LoRA factor of a decoder layer's linear module"
            if name.endswith(_FULL_COPIES):
                why += ", but a copy of the base's: save with save_embedding_layers=False"
            raise _refuse(why)
        path, parent, module = match[1], match[3], match[4]
        if module not in targets or _PARENTS.get(module) != parent:
            raise AdapterIncompatibleError(
                f"{FILE}: the base model has no module {shown(path)}", field="weights"
            )
        layer = int(match[2])
        if layer >= num_layers:
            raise AdapterIncompatibleError(
                f"{FILE}: {shown(path)} is beyond the {num_layers} layers of the base model",
                field="weights",
            )
        key = (layer, module)
        if (key, match[5]) in factors or paths.setdefault(key, path) != path:
            raise _refuse(f"{shown(path)} is given twice under different names")
        factors[key, match[5]] = tensor
    return factors, paths


def _check_coverage(
    config: AdapterConfig,
    factors: Mapping[tuple[ModuleKey, str], Tensor],
    paths: Mapping[ModuleKey, str],
    targets: Mapping[str, tuple[int, int]],
    num_layers: int,
) -> None:
    for key, path in paths.items():
        for factor in "AB":
            if (key, factor) not in factors:
                raise _refuse(f"{shown(path)}.lora_{factor} is missing")
        if not config.adapts(path, key[0]):
            raise _refuse(f"{shown(path)} is in the file, but the config does not adapt it")
    expected = {
        path
        for module in targets
        if module in _PARENTS
        for layer in range(num_layers)
        if (layer, module) not in paths and config.adapts(path := _path(layer, module), layer)
    }
    if expected:
        raise _refuse(f"the config adapts modules that the file lacks: {_listed(expected)}")


def _checked(tensor: Tensor, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    if tensor.shape != shape:
        actual = "x".join(map(str, tensor.shape))
        raise AdapterIncompatibleError(
            f"{FILE}: {name} has the shape {actual}, the config and the base model need "
            f"{shape[0]}x{shape[1]}",
            field="weights",
        )
    values = np.array(tensor, dtype=np.float32, order="C")
    num_bad = values.size - int(np.count_nonzero(np.isfinite(values)))
    if num_bad:
        raise _refuse(f"{name} holds {num_bad} values that are NaN or infinite")
    if float(np.abs(values).max()) > MAX_MAGNITUDE:
        raise _refuse(f"{name} holds values beyond +-{MAX_MAGNITUDE:.0f}, which would overflow")
    return values
