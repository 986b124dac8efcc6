"""A version of an adapter at a lower rank: the best one there is (Eckart and Young, 1936).

The update of every module, scaling * B A, is replaced by the nearest matrix of the lower rank in
the Frobenius norm: the singular value decomposition without its smallest terms. It is computed in
float64 from QR of the thin factors and the SVD of the small core, never from the full matrix.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.architecture import DECODER, ENCODER, Architecture
from edgelora.adapter_format.codec.layout import MAX_RANK
from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.encoder import CLASSIFIER
from edgelora.adapter_format.naming import shown
from edgelora.adapter_format.recognition import recognise
from edgelora.adapter_format.strict_json import parse_object
from edgelora.adapter_format.tensor_file import FILE, Buffer, read_tensors, write_tensors
from edgelora.adapter_format.unserved import why_unserved
from edgelora.error_tree import AdapterRejectedError, InvalidRequestError

Factor = NDArray[np.floating[Any]]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCut:
    """Both files of an adapter at a lower rank."""

    rank: int
    """Largest rank of any module."""
    config: bytes
    weights: bytes
    relative_error: float
    """Norm of what the updates of all modules lost, over the norm of the updates; 0 to 1."""


def cut_adapter(config: bytes, weights: Buffer, rank: int) -> RankCut:
    """Cuts an adapter's files to a rank; modules of that rank or a lower one stay as they are.

    `lora_alpha` and `alpha_pattern` stay too: what the lower rank changes in the scaling, by either
    rule, goes into factor B. Raises AdapterRejectedError for what a node would not serve, naming
    the feature, and InvalidRequestError unless `rank` is below the adapter's own.
    """
    architecture = recognise(config, weights) or DECODER
    parsed = parse_adapter_config(config, max_rank=MAX_RANK, architecture=architecture)
    tensors = read_tensors(weights)
    kept = _classifier(tensors) if architecture is ENCODER else {}
    modules = _modules({n: t for n, t in tensors.items() if n not in kept}, architecture)
    if not modules:
        raise _refuse("there is no LoRA factor to cut")
    own_rank = max(parsed.rank_of(path) for path in modules)
    if not 1 <= rank < own_rank:
        raise InvalidRequestError(
            f"a lower rank has to be 1 to {own_rank - 1}: the adapter itself has {own_rank}",
            field="ranks",
        )
    new_config = _cut_config(config, rank)
    lower = parse_adapter_config(new_config, max_rank=MAX_RANK, architecture=architecture)
    written = {name: tensor.astype(np.float32) for name, tensor in kept.items()}
    lost = whole = 0.0
    for path, (name_a, name_b) in modules.items():
        a, b = tensors[name_a], tensors[name_b]
        _check(path, a, b, parsed.rank_of(path))
        scaling = parsed.scaling_of(path)
        parts = Decomposition.of(a, b)
        values = parts.values * scaling
        whole += float(values @ values)
        if parsed.rank_of(path) > rank:
            a, b = parts.factors(rank)
            b *= scaling / lower.scaling_of(path)
            lost += float(values[rank:] @ values[rank:])
        written[name_a], written[name_b] = a.astype(np.float32), b.astype(np.float32)
    return RankCut(
        rank=rank,
        config=new_config,
        weights=write_tensors(written),
        relative_error=math.sqrt(lost / whole) if whole else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Decomposition:
    """B A = `left` diag(`values`) `right`, with orthonormal columns and rows."""

    left: Matrix
    """Shape [out_features, terms]; as many terms as the smallest of r and the two sizes."""
    values: Matrix
    """The singular values, largest first."""
    right: Matrix
    """Shape [terms, in_features]."""

    @classmethod
    def of(cls, lora_a: Factor, lora_b: Factor) -> Decomposition:
        """Of the product of two factors, [r, in_features] and [out_features, r]."""
        basis_b, core_b = np.linalg.qr(lora_b.astype(np.float64))
        basis_a, core_a = np.linalg.qr(lora_a.astype(np.float64).T)
        left, values, right = np.linalg.svd(core_b @ core_a.T, full_matrices=False)
        return cls(basis_b @ left, values, right @ basis_a.T)

    def factors(self, rank: int) -> tuple[Matrix, Matrix]:
        """The factors A and B of the nearest product of a rank.

        Both share each singular value by its root, so that neither becomes large.
        """
        num_terms = min(rank, len(self.values))
        roots = np.sqrt(self.values[:num_terms])
        a = np.zeros((rank, self.right.shape[1]))
        b = np.zeros((self.left.shape[0], rank))
        a[:num_terms] = roots[:, None] * self.right[:num_terms]
        b[:, :num_terms] = self.left[:, :num_terms] * roots
        return a, b


def checked_modules(
    config: AdapterConfig, tensors: Mapping[str, Factor]
) -> dict[str, tuple[Factor, Factor]]:
    """Path of each module -> its factors A and B, of the shapes and ranks that the config has.

    Raises AdapterRejectedError for anything else.
    """
    modules = {}
    for path, (name_a, name_b) in _modules(tensors).items():
        modules[path] = tensors[name_a], tensors[name_b]
        _check(path, *modules[path], config.rank_of(path))
    return modules


def _classifier(tensors: Mapping[str, Factor]) -> dict[str, Factor]:
    """The tensors of an encoder's adapter that no rank changes."""
    return {name: tensor for name, tensor in tensors.items() if CLASSIFIER.fullmatch(name)}


def _modules(
    tensors: Mapping[str, Factor], architecture: Architecture = DECODER
) -> dict[str, tuple[str, str]]:
    """Path of each module -> the names of its factors A and B."""
    names: dict[str, dict[str, str]] = {}
    for name in tensors:
        match = architecture.factor.fullmatch(name)
        if match is None:
            raise _refuse(why_unserved(name, tensors[name], architecture))
        if names.setdefault(match[1], {}).setdefault(match[4], name) != name:
            raise _refuse(f"{shown(match[1])} is given twice under different names")
    for path, factors in names.items():
        if len(factors) != 2:
            raise _refuse(f"{shown(path)} lacks one of its two factors")
    return {path: (factors["A"], factors["B"]) for path, factors in names.items()}


def _check(path: str, lora_a: Factor, lora_b: Factor, rank: int) -> None:
    if lora_a.ndim != 2 or lora_b.ndim != 2 or (lora_a.shape[0], lora_b.shape[1]) != (rank, rank):
        raise _refuse(f"the factors of {shown(path)} do not have the rank {rank} of the config")
    if not (np.isfinite(lora_a).all() and np.isfinite(lora_b).all()):
        raise _refuse(f"{shown(path)} holds values that are NaN or infinite")


def _cut_config(config: bytes, rank: int) -> bytes:
    document = parse_object(config, field="adapter_config.json")
    document["r"] = min(document["r"], rank)
    if document.get("rank_pattern"):
        document["rank_pattern"] = {
            name: min(own, rank) for name, own in document["rank_pattern"].items()
        }
    return json.dumps(document, indent=2).encode()


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE}: {why}", field="weights")
