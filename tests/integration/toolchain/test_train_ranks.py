"""The versions of a trained adapter: in PEFT and in our back ends they are what the report says."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from edgelora.adapter_format.card import parse_card
from edgelora.cli.adapter_versions import kept_versions
from edgelora.toolchain.chat_data import encode
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import held_out_loss
from edgelora.toolchain.lora_model import load_base, load_tokenizer, with_adapter
from edgelora.toolchain.rank_plan import RankPlan
from edgelora.toolchain.train import train
from edgelora.toolchain.training_options import TrainingOptions
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.torch_backend import TorchBackend
from tests.support.prepared_family import PreparedFamily, adapted_by_peft, expected_logits, read
from tests.support.training_runs import CONVERSATIONS, training_job

pytestmark = pytest.mark.integration

OPTIONS = TrainingOptions(r=8, alpha=16, learning_rate=2e-2, epochs=3, threads=1, batch_tokens=64)
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> PreparedFamily:
    torch.set_num_threads(1)
    return PreparedFamily("llama", tmp_path_factory.mktemp("family"))


def loss_of(family: PreparedFamily, adapter: Path) -> float:
    tokenizer = load_tokenizer(family.directory)
    examples = [encode(one, tokenizer, max_tokens=99, where="") for one in CONVERSATIONS]
    model = with_adapter(load_base(family.directory, torch.float32), adapter)
    return held_out_loss(model, examples, tokenizer.pad_token_id)


def test_one_run_keeps_three_ranks_with_their_measured_quality(family, tmp_path) -> None:
    job = training_job(
        family.directory,
        tmp_path,
        ranks=RankPlan(lower=(4, 2)),
        licence="MIT",
        permissions=("commands: lights",),
        quotes_data=True,
    )
    report = train(job, OPTIONS, tmp_path / "words")
    directory = tmp_path / "words"
    assert [(one.rank, one.origin, one.directory) for one in report.ranks] == [
        (8, "trained", "."), (4, "cut", "rank-4"), (2, "cut", "rank-2"),
    ]  # fmt: skip
    assert [version.rank for version in kept_versions(directory)] == [4, 2]
    for one in report.ranks:
        assert one.directory is not None
        place = directory / one.directory
        assert one.held_out_loss == pytest.approx(loss_of(family, place), abs=1e-4)
        assert read(place, family.description).max_rank == one.rank
        assert (place / "probe.jsonl").read_bytes() == (directory / "probe.jsonl").read_bytes()
    errors = [one.relative_error for one in report.ranks]
    assert errors[0] is None
    assert 0 < errors[1] < errors[2] < 1
    assert report.held_out_loss["adapter"] < report.held_out_loss["base"]

    card = (directory / "README.md").read_text()
    for words in ("license: MIT", "commands: lights", family.description.digest,
                  f"sha256:{report.data.train_sha256}", "rank 4, cut"):  # fmt: skip
        assert words in card
    examples = parse_card((directory / "card.json").read_bytes()).examples
    assert "the fog please" in examples
    text = (directory / "report.md").read_text()
    for words in ("torch 2", "peft", "edgelora", "seed", "| rank 2, cut | 2 |", "loss.svg"):
        assert words in text
    for picture in ("loss.svg", "quality.svg", "energy.svg"):
        assert ElementTree.parse(directory / picture).getroot().tag.endswith("svg")
    assert json.loads((directory / "report.json").read_text())["ranks"][1]["rank"] == 4
    assert report.energy["q_proj"] == sorted(report.energy["q_proj"])
    assert report.energy["q_proj"][-1] == 1.0


def test_a_rank_for_each_module_loads_in_peft_and_is_served_with_the_same_logits(
    family, tmp_path
) -> None:
    plan = RankPlan(lower=(4, 2), budget="r3")
    job = training_job(family.directory, tmp_path, ranks=plan)
    report = train(job, OPTIONS, tmp_path / "auto")
    own, *lower, trained = report.ranks
    assert (own.origin, own.directory, trained.directory) == ("allocated", ".", None)
    assert own.parameters <= 3 * trained.parameters / 8
    config = json.loads((tmp_path / "auto" / "adapter_config.json").read_text())
    assert len({config["r"], *config["rank_pattern"].values()}) > 1
    assert {path: rank * 2 for path, rank in config["rank_pattern"].items()} == config[
        "alpha_pattern"
    ]
    assert [one.rank for one in lower] == [rank for rank in (4, 2) if rank < own.rank]
    for place in (tmp_path / "auto", *(tmp_path / "auto" / str(one.directory) for one in lower)):
        expected = expected_logits(adapted_by_peft(family.model, place, is_bare_decoder=False))
        weights = read(place, family.description)
        served = family.logits(TorchBackend, weights)
        assert np.abs(served - expected).max() < TOLERANCE
        base = expected_logits(family.model)
        assert np.abs(expected - base).max() > 100 * TOLERANCE, "it changes something"
        native = family.logits(NativeBackend, weights)
        agreement = np.corrcoef((native - base).ravel(), (expected - base).ravel())[0, 1]
        assert agreement > 0.9, "the core computes with rounded weights"


def test_ranks_trained_each_have_the_scaling_of_the_first(family, tmp_path) -> None:
    job = training_job(family.directory, tmp_path, ranks=RankPlan(lower=(2,), train_each=True))
    report = train(job, OPTIONS, tmp_path / "each")
    assert [(one.rank, one.origin) for one in report.ranks] == [(8, "trained"), (2, "trained")]
    config = json.loads((tmp_path / "each" / "rank-2" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 4)
    assert report.ranks[1].held_out_loss < report.held_out_loss["base"]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (RankPlan(lower=(8,)), "below the first one, which is 8"),
        (RankPlan(budget="r0"), "rank budget: write r16"),
        (RankPlan(budget="7"), "budget is 7 parameters, rank 1 in every module takes"),
        (RankPlan(budget="r4", train_each=True), "leave it out with --rank auto"),
    ],
)
def test_a_plan_that_can_not_be_kept_is_refused_before_training(
    family, tmp_path, plan, message
) -> None:
    with pytest.raises(ToolchainError, match=message):
        train(training_job(family.directory, tmp_path, ranks=plan), OPTIONS, tmp_path / "x")
