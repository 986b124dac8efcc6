"""From a config and named tensors to `AdapterWeights`: everything fits, or nothing is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.architecture import DECODER, Architecture
from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.naming import matches_any, shown, suffixes
from edgelora.adapter_format.tensor_file import FILE, Buffer, read_tensors
from edgelora.adapter_format.unserved import why_not_linear, why_unserved
from edgelora.adapter_format.weights import AdapterWeights, LoraPair
from edgelora.error_tree import AdapterIncompatibleError, AdapterRejectedError

MAX_MAGNITUDE = 65504.0
"""The float16 range. With alpha and rank bounded too, every update stays finite in float32."""

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
    """Reads both files of a decoder's adapter and checks them against a base model.

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
    architecture: Architecture = DECODER,
    may_be_empty: bool = False,
) -> AdapterWeights:
    """Pairs the factors, checks coverage, shapes and values, and computes the scalings.

    Every tensor has to be used, every module the config names has to exist in the base model and
    to have both factors, and the whole has to change something; it `may_be_empty` where a
    classifier is all that was trained. Raises as `read_adapter`.
    """
    shape = _Shape(architecture, targets, num_layers)
    _check_targets(config, shape)
    factors, paths = _sort_factors(tensors, shape)
    _check_coverage(config, factors, paths, shape)
    pairs: dict[ModuleKey, LoraPair] = {}
    for key in sorted(paths):
        path = paths[key]
        out_features, in_features = targets[key[1]]
        rank = config.rank_of(path)
        lora_a = checked_tensor(factors[key, "A"], f"{path}.lora_A", (rank, in_features))
        lora_b = checked_tensor(factors[key, "B"], f"{path}.lora_B", (out_features, rank))
        pairs[key] = LoraPair(lora_a, lora_b, config.scaling_of(path))
    if not pairs and may_be_empty:
        return AdapterWeights(pairs)
    if not any(pair.lora_a.any() and pair.lora_b.any() for pair in pairs.values()):
        raise _refuse("one factor of every module is all zeros: the adapter would change nothing")
    return AdapterWeights(pairs)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What of a base model adapters are checked against."""

    architecture: Architecture
    targets: Mapping[str, tuple[int, int]]
    num_layers: int

    def modules(self, *, is_bare: bool = False) -> Iterator[tuple[str, ModuleKey]]:
        """Path and key of every module that can be adapted."""
        for module in self.targets.keys() & self.architecture.modules.keys():
            for layer in range(self.num_layers):
                yield self.architecture.path(layer, module, is_bare=is_bare), (layer, module)

    def module_at(self, inside: str) -> str | None:
        """Name of the module at a path inside a layer."""
        for module, path in self.architecture.modules.items():
            if path == inside and module in self.targets:
                return module
        return None


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE}: {why}", field="weights")


def _listed(names: set[str]) -> str:
    told = sorted(shown(name) for name in names)
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def _check_targets(config: AdapterConfig, shape: _Shape) -> None:
    # A name may be a tail of a path, so it is looked for among all tails of all paths.
    known = {suffix for path, _ in shape.modules() for suffix in suffixes(path)}
    if not isinstance(config.target_modules, str):
        # What is excluded again is adapted nowhere: PEFT's all-linear lists such targets.
        absent = {
            name
            for name in config.target_modules - known
            if not matches_any(config.exclude_modules, name)
        }
        if absent:
            raise AdapterIncompatibleError(
                f"adapter_config.json: target_modules: the base model does not serve "
                f"{_listed(absent)}; it serves {_listed(set(shape.targets))}: "
                f"train on those alone{why_not_linear(absent)}",
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
    if any(layer >= shape.num_layers for layer in layers):
        raise AdapterIncompatibleError(
            "adapter_config.json: layers_to_transform: the base model has "
            f"{shape.num_layers} layers",
            field="config.layers_to_transform",
        )


def _sort_factors(
    tensors: Mapping[str, Tensor], shape: _Shape
) -> tuple[dict[tuple[ModuleKey, str], Tensor], dict[ModuleKey, str]]:
    """Keys every tensor by its module and factor; any that is no factor of ours is refused."""
    factors: dict[tuple[ModuleKey, str], Tensor] = {}
    paths: dict[ModuleKey, str] = {}
    for name, tensor in tensors.items():
        match = shape.architecture.factor.fullmatch(name)
        if match is None or tensor.ndim > 2:
            raise _refuse(why_unserved(name, tensor, shape.architecture))
        path, module = match[1], shape.module_at(match[3])
        if module is None:
            raise AdapterIncompatibleError(
                f"{FILE}: the base model has no module {shown(path)}", field="weights"
            )
        layer = int(match[2])
        if layer >= shape.num_layers:
            raise AdapterIncompatibleError(
                f"{FILE}: {shown(path)} is beyond the {shape.num_layers} layers of the base model",
                field="weights",
            )
        key = (layer, module)
        if (key, match[4]) in factors or paths.setdefault(key, path) != path:
            raise _refuse(f"{shown(path)} is given twice under different names")
        factors[key, match[4]] = tensor
    return factors, paths


def _check_coverage(
    config: AdapterConfig,
    factors: Mapping[tuple[ModuleKey, str], Tensor],
    paths: Mapping[ModuleKey, str],
    shape: _Shape,
) -> None:
    for key, path in paths.items():
        for factor in "AB":
            if (key, factor) not in factors:
                raise _refuse(f"{shown(path)}.lora_{factor} is missing")
        if not config.adapts(path, key[0]):
            raise _refuse(f"{shown(path)} is in the file, but the config does not adapt it")
    prefix = shape.architecture.prefix
    is_bare = any(not path.startswith(prefix) for path in paths.values())
    expected = {
        path
        for path, key in shape.modules(is_bare=is_bare)
        if key not in paths and config.adapts(path, key[0])
    }
    if expected:
        raise _refuse(f"the config adapts modules that the file lacks: {_listed(expected)}")


def checked_tensor(tensor: Tensor, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A tensor in float32, of this shape and finite. Raises as `read_adapter`."""
    if tensor.shape != shape:
        actual, needed = ("x".join(map(str, each)) for each in (tensor.shape, shape))
        raise AdapterIncompatibleError(
            f"{FILE}: {name} has the shape {actual}, the config and the base model need {needed}",
            field="weights",
        )
    values = np.array(tensor, dtype=np.float32, order="C")
    num_bad = values.size - int(np.count_nonzero(np.isfinite(values)))
    if num_bad:
        raise _refuse(f"{name} holds {num_bad} values that are NaN or infinite")
    if float(np.abs(values).max()) > MAX_MAGNITUDE:
        raise _refuse(f"{name} holds values beyond +-{MAX_MAGNITUDE:.0f}, which would overflow")
    return values
