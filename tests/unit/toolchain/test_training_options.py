"""Settings that cannot work are refused by name, and the rule of three holds."""

from __future__ import annotations

import math

import pytest

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.training_options import TrainingOptions, data_share

MODULES = ("q_proj", "v_proj")


def test_sensible_options_pass() -> None:
    TrainingOptions(r=4, alpha=8, targets=("q_proj",)).check(MODULES)
    TrainingOptions(r=4, alpha=8).check(MODULES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r": 0}, r"r is 0: the rank must be 1 to 256"),
        ({"r": 257}, r"r is 257"),
        ({"alpha": None}, r"alpha is missing"),
        ({"alpha": 0.0}, r"alpha is 0.0"),
        ({"alpha": math.nan}, r"alpha is nan"),
        ({"alpha": 2e6}, r"at most 1e\+06"),
        ({"targets": ()}, r"targets is empty"),
        ({"targets": ("q_proj", "c_attn")}, r"'c_attn' does not exist.*q_proj, v_proj"),
        ({"targets": ("all-linear", "q_proj")}, r"'all-linear' does not exist.*alone"),
        ({"dropout": 1.0}, r"dropout is 1.0"),
        ({"epochs": 0}, r"epochs is 0"),
        ({"epochs": math.inf}, r"epochs is inf"),
        ({"epochs": 3.5}, r"epochs is 3.5, at most 3 .*--force"),
        ({"learning_rate": -1.0}, r"learning_rate"),
        ({"learning_rate": math.nan}, r"learning_rate"),
        ({"learning_rate": 1e300}, r"at most 1e\+09"),
        ({"epochs": 1e300, "force": True}, r"epochs"),
        ({"seed": -1}, r"seed"),
        ({"seed": 2**63}, r"seed"),
        ({"threads": 2**40}, r"threads must be from 1 to 1024"),
        ({"warmup_share": 1.0}, r"warmup_share"),
        ({"batch_tokens": 0}, r"batch_tokens"),
        ({"threads": 0}, r"threads"),
        ({"early_stop": 0}, r"early_stop"),
        ({"checkpoint_steps": 0}, r"checkpoint_steps"),
    ],
)
def test_impossible_option_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ToolchainError, match=message):
        TrainingOptions(**{"r": 4, "alpha": 8, **changes}).check(MODULES)  # type: ignore[arg-type]


def test_more_than_three_epochs_need_force() -> None:
    TrainingOptions(alpha=8, epochs=3).check(MODULES)
    TrainingOptions(alpha=8, epochs=5, force=True).check(MODULES)


def test_data_share_is_capped_at_three_percent() -> None:
    assert data_share(30, 1000, force=False) == pytest.approx(0.03)
    with pytest.raises(ToolchainError, match=r"31 tokens, 3.1 % .* at most 3 %.*--force"):
        data_share(31, 1000, force=False)
    assert data_share(31, 1000, force=True) == pytest.approx(0.031)


def test_an_unknown_base_counts_as_trained_on_one_token_a_parameter() -> None:
    assert data_share(30, None, force=False, base_parameters=1000) is None
    with pytest.raises(ToolchainError, match=r"3.1 % of what it surely saw.*give --base-training"):
        data_share(31, None, force=False, base_parameters=1000)
    assert data_share(31, 10**6, force=False, base_parameters=1000) == pytest.approx(3.1e-5)


@pytest.mark.parametrize("use_rslora", [False, True])
def test_another_rank_keeps_the_scaling(use_rslora: bool) -> None:
    options = TrainingOptions(r=64, alpha=128, use_rslora=use_rslora)
    assert options.at_rank(16).scaling == pytest.approx(options.scaling)


def test_data_share_of_an_unknown_base_is_unknown() -> None:
    assert data_share(10**12, None, force=False) is None
    with pytest.raises(ToolchainError, match="must be positive"):
        data_share(1, 0, force=False)
