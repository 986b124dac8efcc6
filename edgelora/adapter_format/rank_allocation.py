"""A rank of its own for every module: where the update has energy, and none where it has not.

The singular values of all updates, scaling * B A, compete for a budget of parameters: the term
with the most energy (its square) for each parameter it costs goes first. As the values of a module
only fall, what is taken of each is a beginning, and the sum is the most that the budget can keep,
but for the last term. Every module keeps at least one rank: PEFT has no rank of zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgelora.adapter_format.codec.layout import MAX_RANK
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.rank_cut import Decomposition, Matrix, RankCut, checked_modules
from edgelora.adapter_format.strict_json import parse_object
from edgelora.adapter_format.tensor_file import Buffer, read_tensors, write_tensors
from edgelora.error_tree import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The singular values of one module's update."""

    values: Matrix
    """Shape [rank], largest first, the scaling included."""
    cost: int
    """Parameters of one rank: inputs and outputs of the module."""


def spectra(config: bytes, weights: Buffer) -> dict[str, Spectrum]:
    """Path of each module -> its spectrum. Raises as `cut_adapter`."""
    parsed = parse_adapter_config(config, max_rank=MAX_RANK)
    found = {}
    for path, (a, b) in checked_modules(parsed, read_tensors(weights)).items():
        values = Decomposition.of(a, b).values * parsed.scaling_of(path)
        found[path] = Spectrum(values, a.shape[1] + b.shape[0])
    return found


def allocate_ranks(of: Mapping[str, Spectrum], budget: int) -> dict[str, int]:
    """The rank of each module within a budget of parameters in all.

    Raises InvalidRequestError when the budget does not even hold rank 1 everywhere.
    """
    least = sum(spectrum.cost for spectrum in of.values())
    if budget < least:
        raise InvalidRequestError(
            f"the budget is {budget} parameters, rank 1 in every module takes {least}: raise it",
            field="rank_budget",
        )
    ranks = dict.fromkeys(of, 1)
    left = budget - least
    terms = sorted(
        (-(float(value) ** 2) / spectrum.cost, index, path)
        for path, spectrum in of.items()
        for index, value in enumerate(spectrum.values)
        if index > 0 and value > 0
    )
    full: set[str] = set()
    for _, _, path in terms:
        if path in full or of[path].cost > left:
            full.add(path)  # what is smaller must not overtake what did not fit
            continue
        ranks[path] += 1
        left -= of[path].cost
    return ranks


def adapter_of_ranks(config: bytes, weights: Buffer, ranks: Mapping[str, int]) -> RankCut:
    """An adapter's files with the given rank in each module, every scaling as it was.

    `r` is the largest rank; `rank_pattern` and `alpha_pattern` name the modules with another.
    Raises AdapterRejectedError for what a node would not serve.
    """
    parsed = parse_adapter_config(config, max_rank=MAX_RANK)
    modules = checked_modules(parsed, read_tensors(weights))
    alphas: dict[str, float] = {}
    written: dict[str, NDArray[np.float32]] = {}
    whole = lost = 0.0
    for path, (a, b) in modules.items():
        rank, scaling = ranks[path], parsed.scaling_of(path)
        alphas[path] = scaling * (math.sqrt(rank) if parsed.use_rslora else rank)
        parts = Decomposition.of(a, b)
        energies = (parts.values * scaling) ** 2
        whole += float(energies.sum())
        lost += float(energies[rank:].sum())
        for letter, factor in zip("AB", parts.factors(rank), strict=True):
            written[f"base_model.model.{path}.lora_{letter}.weight"] = factor.astype(np.float32)
    widest = max(modules, key=lambda path: ranks[path])
    document = parse_object(config, field="adapter_config.json") | {
        "r": ranks[widest],
        "lora_alpha": alphas[widest],
        "rank_pattern": {path: ranks[path] for path in modules if ranks[path] != ranks[widest]},
        "alpha_pattern": {path: alphas[path] for path in modules if alphas[path] != alphas[widest]},
    }
    return RankCut(
        rank=ranks[widest],
        config=json.dumps(document, indent=2).encode(),
        weights=write_tensors(written),
        relative_error=math.sqrt(lost / whole) if whole else 0.0,
    )
