"""The numbers in the demo reports can be measured again from the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from edgelora.toolchain.chat_data import encode, read_conversations
from edgelora.toolchain.demo import DEMO_ADAPTERS
from edgelora.toolchain.evaluation import held_out_loss
from edgelora.toolchain.exact_match import exact_match
from edgelora.toolchain.lora_model import load_base, load_tokenizer
from edgelora.toolchain.probe_file import PROBE_FILE, write_probe
from services.adapter_store.verification.probes import read_probe
from tests.support.prepared_model import ROOT, prepared_model

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

DEMO = ROOT / "demo"
SAMPLE = 8
HOME_SAMPLE = 12


def load(name: str) -> tuple[PeftModel, object, dict]:
    torch.set_num_threads(1)
    model_directory = prepared_model()
    model = PeftModel.from_pretrained(load_base(model_directory, torch.float32), DEMO / name)
    report = json.loads((DEMO / name / "report.json").read_text())
    return model, load_tokenizer(model_directory), report


@pytest.mark.parametrize("name", sorted(DEMO_ADAPTERS))
def test_held_out_loss_of_a_sample_agrees_with_the_report(name: str) -> None:
    model, tokenizer, report = load(name)
    sample = read_conversations(DEMO / name / "data" / "test.jsonl")[:SAMPLE]
    examples = [encode(one, tokenizer, max_tokens=1024, where="") for one in sample]
    adapter = held_out_loss(model, examples, tokenizer.pad_token_id)
    with model.disable_adapter():
        base = held_out_loss(model, examples, tokenizer.pad_token_id)
    assert adapter < 0.85 * base
    # A sample differs from the whole, but not by much more than its size explains.
    assert base == pytest.approx(report["held_out_loss"]["base"], rel=0.3)
    assert adapter == pytest.approx(report["held_out_loss"]["adapter"], rel=0.6, abs=0.06)


def test_home_commands_of_a_sample_are_answered_exactly() -> None:
    model, tokenizer, report = load("home")
    sample = read_conversations(DEMO / "home" / "data" / "test.jsonl")[:HOME_SAMPLE]
    assert report["task"]["adapter_exact_match"] >= 0.6
    assert exact_match(model, tokenizer, sample) >= 0.5


def test_demo_directory_holds_the_four_adapters() -> None:
    files = {"adapter_config.json", "adapter_model.safetensors", "README.md", "report.json"}
    files |= {"probe.jsonl", "card.json", "data"}
    for name in DEMO_ADAPTERS:
        assert {path.name for path in Path(DEMO / name).iterdir()} == files


@pytest.mark.parametrize("name", sorted(DEMO_ADAPTERS))
def test_probe_is_what_the_test_data_give(name: str, tmp_path: Path) -> None:
    conversations = read_conversations(DEMO / name / "data" / "test.jsonl")
    count = write_probe(tmp_path, conversations, load_tokenizer(prepared_model()))
    written = (tmp_path / PROBE_FILE).read_bytes()
    assert written == (DEMO / name / PROBE_FILE).read_bytes()
    assert len(read_probe(written)) == count >= 2
