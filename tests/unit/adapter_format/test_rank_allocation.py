"""A rank for each module: the best that a budget buys, with every scaling as it was."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.rank_allocation import (
    Spectrum,
    adapter_of_ranks,
    allocate_ranks,
    spectra,
)
from edgelora.adapter_format.tensor_file import read_tensors
from edgelora.error_tree import InvalidRequestError
from tests.support.adapter_files import config_bytes, ranked_adapter

OF = {
    "a": Spectrum(np.array([3.0, 2.0, 0.1]), 10),
    "b": Spectrum(np.array([1.0, 0.9, 0.8]), 10),
    "c": Spectrum(np.array([5.0, 4.0, 0.0]), 20),
}


def energy(ranks: dict[str, int]) -> float:
    return sum(float(np.square(OF[path].values[:rank]).sum()) for path, rank in ranks.items())


@pytest.mark.parametrize("budget", range(40, 130, 10))
def test_no_other_ranks_within_the_budget_keep_more_than_one_term_more(budget: int) -> None:
    ranks = allocate_ranks(OF, budget)
    cost = sum(rank * OF[path].cost for path, rank in ranks.items())
    assert cost <= budget
    best = max(
        energy(dict(zip(OF, each, strict=True)))
        for each in product((1, 2, 3), repeat=3)
        if sum(rank * OF[path].cost for path, rank in zip(OF, each, strict=True)) <= budget
    )
    largest_term = 4.0**2
    assert best - energy(ranks) < largest_term
    if budget in (40, 60, 80, 120):  # nothing is left over: then it is the best there is
        assert energy(ranks) == pytest.approx(best, abs=0.01 + 1e-9)


def test_a_rank_without_energy_is_not_bought() -> None:
    assert allocate_ranks(OF, 10**6) == {"a": 3, "b": 3, "c": 2}


def test_a_budget_below_rank_one_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidRequestError, match=r"budget is 39 .* takes 40"):
        allocate_ranks(OF, 39)


@pytest.mark.parametrize("use_rslora", [False, True])
def test_scalings_stay_and_the_updates_are_the_nearest_of_their_ranks(use_rslora: bool) -> None:
    files = ranked_adapter(8)
    config = config_bytes(r=8, use_rslora=use_rslora)
    of = spectra(config, files.weights)
    ranks = {path: 1 + index % 5 for index, path in enumerate(of)}
    cut = adapter_of_ranks(config, files.weights, ranks)
    before = parse_adapter_config(config, max_rank=64)
    after = parse_adapter_config(cut.config, max_rank=64)
    assert cut.rank == after.max_rank == max(ranks.values())
    old, new = read_tensors(files.weights), read_tensors(cut.weights)
    lost = whole = 0.0
    for path, rank in ranks.items():
        assert after.rank_of(path) == rank
        assert after.scaling_of(path) == pytest.approx(before.scaling_of(path))
        a, b = (new[f"base_model.model.{path}.lora_{letter}.weight"] for letter in "AB")
        assert (a.shape[0], b.shape[1]) == (rank, rank)
        full = before.scaling_of(path) * (
            old[f"base_model.model.{path}.lora_B.weight"].astype(np.float64)
            @ old[f"base_model.model.{path}.lora_A.weight"]
        )
        rest = np.linalg.norm(full - after.scaling_of(path) * (b.astype(np.float64) @ a))
        assert rest == pytest.approx(np.linalg.norm(of[path].values[rank:]), rel=1e-4)
        lost, whole = lost + rest**2, whole + np.linalg.norm(full) ** 2
    assert cut.relative_error == pytest.approx((lost / whole) ** 0.5, rel=1e-4)
    document = json.loads(cut.config)
    assert set(document["rank_pattern"]) == {p for p, r in ranks.items() if r != cut.rank}
