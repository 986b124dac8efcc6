"""The speeds aimed at beside other engines, evaluated on the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping

from bench.engine_cases import (
    DISTINCT,
    EIGHT_BASE,
    EIGHT_SMALL,
    ONE_ADAPTER,
    ONE_BASE,
    PREFILL_ADAPTER,
    PREFILL_BASE,
    Case,
)
from bench.peers.roster import OURS
from bench.result import Target

Speeds = Mapping[str, Mapping[str, float]]
"""Case -> engine -> tokens a second."""

_LLAMA = "llama.cpp Q4_0"
_RATIOS: tuple[tuple[Case, str, float], ...] = (
    (ONE_BASE, _LLAMA, 1.5),
    (EIGHT_BASE, _LLAMA, 2.5),
    (EIGHT_BASE, "openvino", 2.0),
    (DISTINCT[8], _LLAMA, 10.0),
    (DISTINCT[8], "openvino", 8.0),
    (DISTINCT[8], "vllm", 10.0),
    (DISTINCT[8], "peft", 15.0),
    (PREFILL_BASE, _LLAMA, 2.5),
    (PREFILL_ADAPTER, _LLAMA, 2.5),
    (PREFILL_BASE, "openvino", 1.1),
)
_SHAPE_RATIOS: tuple[tuple[Case, str, float], ...] = (
    (ONE_BASE, _LLAMA, 1.4),
    (DISTINCT[8], _LLAMA, 8.0),
)
_MAX_COSTS = ((DISTINCT[8], 0.45), (EIGHT_SMALL, 0.15))
_MIN_GROWTH = 4.0
_MIN_BANDWIDTH_SHARE = 0.7
_BANDWIDTH_SHAPE = "1.7b"


def engine_targets(speeds: Speeds, served_base: frozenset[str]) -> list[Target]:
    """Targets for the default model. `served_base`: engines that ignore adapters."""
    targets = _ratios(_RATIOS, speeds, served_base)
    for case, bound in _MAX_COSTS:
        cost = _ratio(speeds, EIGHT_BASE, case)
        targets.append(
            Target.at_most(
                f"{case.name}: extra time of a step over base",
                bound,
                None if cost is None else round(cost - 1, 3),
            )
        )
    for one, eight in ((ONE_BASE, EIGHT_BASE), (ONE_ADAPTER, DISTINCT[8])):
        targets.append(
            Target.at_least(
                f"{eight.name} / {one.name}", _MIN_GROWTH, _rounded(_ratio(speeds, eight, one))
            )
        )
    return targets


def shape_targets(
    shape: str, speeds: Speeds, served_base: frozenset[str], bandwidth_share: float | None
) -> list[Target]:
    """Targets for random weights of a shape."""
    targets = _ratios(_SHAPE_RATIOS, speeds, served_base)
    if shape == _BANDWIDTH_SHAPE:
        targets.append(
            Target.at_least(
                "share of the read bandwidth at 1 stream", _MIN_BANDWIDTH_SHARE, bandwidth_share
            )
        )
    return targets


def _ratios(
    wanted: tuple[tuple[Case, str, float], ...], speeds: Speeds, served_base: frozenset[str]
) -> list[Target]:
    targets = []
    for case, peer, bound in wanted:
        row = speeds.get(case.name, {})
        value = row[OURS] / row[peer] if OURS in row and peer in row else None
        note = " (it served the base)" if case.uses_adapters and peer in served_base else ""
        targets.append(Target.at_least(f"{case.name} / {peer}{note}", bound, _rounded(value)))
    return targets


def _ratio(speeds: Speeds, first: Case, second: Case) -> float | None:
    """Our speed in one case over our speed in another."""
    found = [speeds.get(case.name, {}).get(OURS) for case in (first, second)]
    if found[0] is None or found[1] is None:
        return None
    return found[0] / found[1]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
