"""The shipped demo adapters are small, sound, and what their reports say they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edgelora.adapter_format.assemble import read_adapter
from edgelora.toolchain.demo import DEMO_ADAPTERS
from services.chassis.base_model import BaseModel
from tests.support.prepared_model import prepared_model

DEMO = Path(__file__).resolve().parents[3] / "demo"
MAX_BYTES = 3_000_000

pytestmark = pytest.mark.parametrize("name", sorted(DEMO_ADAPTERS))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def report_of(name: str) -> dict:
    return json.loads((DEMO / name / "report.json").read_text())


def test_weights_are_small_finite_fp16_and_not_zero(name: str) -> None:
    path = DEMO / name / "adapter_model.safetensors"
    assert path.stat().st_size <= MAX_BYTES
    for tensor_name, tensor in safetensors.numpy.load_file(path).items():
        assert tensor.dtype == np.float16, tensor_name
        assert np.isfinite(tensor).all(), tensor_name
        assert tensor.any(), tensor_name


def test_adapter_is_what_the_store_accepts(name: str) -> None:
    model = BaseModel.load(prepared_model())
    config, weights = read_adapter(
        (DEMO / name / "adapter_config.json").read_bytes(),
        (DEMO / name / "adapter_model.safetensors").read_bytes(),
        targets=model.targets,
        num_layers=model.num_layers,
        max_rank=64,
    )
    report = report_of(name)["adapter"]
    assert (config.rank, config.alpha) == (report["r"], report["alpha"])
    assert weights.pairs


def test_config_names_the_base_and_no_machine(name: str) -> None:
    text = (DEMO / name / "adapter_config.json").read_text()
    config = json.loads(text)
    assert config["peft_type"] == "LORA"
    assert config["base_model_name_or_path"] == "smollm2-135m-instruct"
    assert config["inference_mode"] is True
    assert "/" not in text


def test_report_describes_these_very_files(name: str) -> None:
    report = report_of(name)
    directory = DEMO / name
    weights = directory / "adapter_model.safetensors"
    assert report["adapter"]["weights_sha256"] == sha256(weights)
    assert report["adapter"]["weights_bytes"] == weights.stat().st_size
    assert report["data"]["train_sha256"] == sha256(directory / "data" / "train.jsonl")
    assert report["data"]["test_sha256"] == sha256(directory / "data" / "test.jsonl")
    parameters = sum(tensor.size for tensor in safetensors.numpy.load_file(weights).values())
    assert report["adapter"]["parameters"] == parameters


def test_report_keeps_the_rule_of_three(name: str) -> None:
    report = report_of(name)
    assert report["run"]["epochs"] <= 3
    tokens, base = report["data"]["train_tokens"], report["data"]["base_training_tokens"]
    assert report["data"]["data_share"] == pytest.approx(tokens / base)
    assert report["data"]["data_share"] <= 0.03
    curve = report["run"]["loss_curve"]
    assert curve[-1][0] == report["run"]["steps"]
    assert curve[-1][1] < curve[0][1]


def test_adapter_lowers_held_out_loss_by_15_percent(name: str) -> None:
    loss = report_of(name)["held_out_loss"]
    assert loss["adapter"] <= 0.85 * loss["base"]


def test_home_adapter_gets_60_percent_right(name: str) -> None:
    task = report_of(name)["task"]
    if name == "home":
        assert task["adapter_exact_match"] >= 0.6
        assert task["base_exact_match"] < 0.1
    else:
        assert task == {}


def test_card_states_the_measured_numbers(name: str) -> None:
    card = (DEMO / name / "README.md").read_text()
    loss = report_of(name)["held_out_loss"]
    assert f"base {loss['base']:.3f}, adapter {loss['adapter']:.3f}" in card
