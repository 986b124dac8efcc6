"""Training a classifier: it learns, PEFT loads it with the same logits, and so does our encoder."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from peft import PeftModel
from safetensors.torch import load_file
from transformers import BertForSequenceClassification

from edgelora.adapter_format.encoder import read_encoder_adapter
from edgelora.cli.train import train as train_command
from edgelora.toolchain.classification.fit import FitInterrupted
from edgelora.toolchain.classification.labelled_text import read_data
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.classification.train import (
    ClassificationJob,
    load_tokenizer,
    train,
    train_classifier,
)
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.interruption import Interruption
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderLimits, EncoderText
from services.inference.encoder.classification import classify, head_logits
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.support.tiny_encoder import save_tiny_encoder, tiny_tokenizer

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

KINDS = {
    "alarm": ("set alarm", "seven tomorrow", "alarm tonight", "alarm for tomorrow morning"),
    "bill": ("pay bill", "how much do i owe", "what bill do i pay", "pay what i owe"),
    "music": ("play some song", "song louder", "turn song louder", "play louder"),
    None: ("who are you", "where can we eat", "the weather in my town", "book flight"),
}
ENDS = ("", " please", " now", " in kitchen", " tonight", " for me")
TEXTS = [
    (start + end, label) for label, starts in KINDS.items() for start in starts for end in ENDS
]
OPTIONS = ClassificationOptions(
    r=4,
    alpha=8,
    epochs=4,
    learning_rate=5e-3,
    head_learning_rate=3e-2,
    dropout=0.0,
    batch_size=16,
    max_scope_loss=0.2,
    threads=1,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("classifier")
    save_tiny_encoder(directory / "models" / "tiny")
    rows = [json.dumps({"text": text, "label": label}) for text, label in TEXTS]
    (directory / "texts.jsonl").write_text("\n".join(rows))
    return directory


def job(place, **changes):
    files = {"train_file": place / "texts.jsonl", "model_directory": place / "models" / "tiny"}
    return ClassificationJob(name="intents", **{**files, **changes})


@pytest.fixture(scope="module")
def trained(place):
    """(the directory, the report)"""
    report = train(job(place, test_file=place / "texts.jsonl"), OPTIONS, place / "intents")
    return place / "intents", report


def token_ids(text):
    tokenizer = tiny_tokenizer()
    tokenizer.no_padding()
    return tokenizer.encode(text).ids


def read(place, directory):
    model = TorchEncoderBackend(num_threads=1)
    base = model.load_model(place / "models" / "tiny", EncoderLimits(max_loras=1, max_lora_rank=8))
    names = ("adapter_config.json", "adapter_model.safetensors", "head.json")
    adapter = read_encoder_adapter(
        *((directory / name).read_bytes() for name in names),
        targets=base.targets,
        num_layers=base.num_layers,
        hidden_size=base.hidden_size,
        max_rank=8,
    )
    return model, adapter


def test_it_learns_and_says_what_it_was_made_of(trained):
    directory, report = trained
    names = {path.name for path in directory.iterdir()}
    weights = {"adapter_config.json", "adapter_model.safetensors", "head.json"}
    reports = {"README.md", "report.json", "report.md", "loss.svg", "scope.svg"}
    assert names == weights | reports
    assert report.measures["test"]["in_scope"] > 0.7
    assert report.measures["test"]["out_of_scope_recall"] > 0.5
    assert report.texts["train"] == {"in_scope": 66, "out_of_scope": 22}
    assert report.loss_curve[-1][1] < report.loss_curve[0][1]
    saved = json.loads((directory / "report.json").read_text())
    assert saved["measures"] == report.measures
    assert str(directory.parent) not in (directory / "adapter_config.json").read_text()


def test_peft_and_our_encoder_give_the_logits_that_were_measured(place, trained):
    directory, report = trained
    backend, adapter = read(place, directory)
    outputs = len(adapter.head.labels)
    base = BertForSequenceClassification.from_pretrained(
        place / "models" / "tiny", num_labels=outputs
    )
    theirs = PeftModel.from_pretrained(base, directory).eval()
    backend.load_adapter(0, adapter.weights)
    right = 0
    for text, label in TEXTS:
        ids = token_ids(text)
        with torch.inference_mode():
            inner = theirs.base_model.model
            hidden = inner.bert(torch.tensor([ids])).last_hidden_state[0].mean(0)
            expected = inner.classifier(hidden / hidden.norm()).numpy()
        use = EncoderText(
            token_ids=np.array(ids, np.int32), adapters=(SlotWeight(0, 1.0),), pooling="mean"
        )
        vector = backend.encode([use])[0]
        assert np.abs(head_logits(adapter.head, vector) - expected).max() < 1e-4
        answer = classify(adapter.head, vector, top=1)
        if label is not None:
            right += not answer.is_out_of_scope and answer.labels[0][0] == label
    share = right / report.measures["test"]["texts"]
    assert share == pytest.approx(report.measures["test"]["in_scope"])


def test_a_run_that_was_interrupted_goes_on_to_the_same_weights(
    place, trained, tmp_path, monkeypatch
):
    class AfterFiveSteps(Interruption):
        """Ctrl-C during the fifth step."""

        looks = 0

        @property
        def is_wanted(self):
            self.looks += 1
            return self.looks >= 5

        @is_wanted.setter
        def is_wanted(self, value):
            pass

    output = tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr("edgelora.toolchain.classification.fit.Interruption", AfterFiveSteps)
        with pytest.raises(FitInterrupted):
            train(job(place), OPTIONS, output)
    assert [path.name for path in tmp_path.iterdir()] == [".again.training"]
    with pytest.raises(ToolchainError, match="go on with --resume, or start over with --replace"):
        train(job(place), OPTIONS, output)
    with pytest.raises(ToolchainError, match="the unfinished run had another settings"):
        train(job(place), replace(OPTIONS, seed=1), output, resume=True)
    for other, name in (
        (job(place, validation_file=place / "texts.jsonl"), "validation data"),
        (job(place, out_of_scope="music"), "validation data, out of scope label"),
    ):
        with pytest.raises(ToolchainError, match=f"the unfinished run had another {name}"):
            train(other, OPTIONS, output, resume=True)
    again = train(job(place), OPTIONS, output, resume=True)
    assert again.weights_sha256 == trained[1].weights_sha256
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_a_linear_probe_is_an_adapter_without_factors(place, tmp_path):
    options = replace(OPTIONS, method="probe", epochs=4)
    report = train(job(place), options, tmp_path / "probe")
    assert report.encoder_parameters == 0
    _, adapter = read(place, tmp_path / "probe")
    assert not adapter.weights.pairs
    assert adapter.head.labels == ("alarm", "bill", "music", "oos")
    base = BertForSequenceClassification.from_pretrained(place / "models" / "tiny", num_labels=4)
    theirs = PeftModel.from_pretrained(base, tmp_path / "probe").base_model.model.classifier
    assert np.array_equal(theirs.modules_to_save["default"].weight.detach(), adapter.head.weight)


def test_full_fine_tuning_leaves_a_whole_model_and_runs_have_a_mean(place, tmp_path):
    options = replace(OPTIONS, method="full", epochs=1, learning_rate=1e-4, layer_decay=0.9)
    report = train(job(place), options, tmp_path / "full")
    whole = BertForSequenceClassification.from_pretrained(tmp_path / "full")
    of_encoder = sum(one.numel() for one in whole.bert.parameters())
    of_pooler = sum(one.numel() for one in whole.bert.pooler.parameters())
    assert report.encoder_parameters == of_encoder - of_pooler

    other = train(job(place), replace(options, seed=1), tmp_path / "other")
    assert other.weights_sha256 != report.weights_sha256
    both = (tmp_path / "full", tmp_path / "other")
    mean = train(job(place, mean_of=both), options, tmp_path / "mean")
    assert (mean.mean_of, mean.loss_curve) == (2, [])
    states = [load_file(path / "model.safetensors") for path in (*both, tmp_path / "mean")]
    for name, values in states[2].items():
        assert torch.allclose(values, (states[0][name] + states[1][name]) / 2)


def test_with_consistency_two_draws_of_dropout_agree_more(place):
    data = read_data(job(place).train_file, seed=0)
    directory = place / "models" / "tiny"
    tokenizer = load_tokenizer(directory, OPTIONS.max_tokens)
    ids = [np.array(tokenizer.encode(text).ids, np.int32) for text, _ in TEXTS[:32]]

    def divergence(consistency):
        options = replace(OPTIONS, epochs=2, dropout=0.3, consistency=consistency)
        model = train_classifier(data, options, directory, "tiny", tokenizer).model
        model.train()
        with torch.no_grad():
            draws = [model.head(model.vectors(ids)).log_softmax(dim=-1) for _ in range(16)]
        pairs = zip(draws[::2], draws[1::2], strict=True)
        return sum(float(((a - b) * a.exp()).sum()) for a, b in pairs)

    assert divergence(20.0) < 0.5 * divergence(0.0)


def test_the_command_trains_and_refuses_what_is_not_for_classifiers(place, tmp_path):
    flags = ["--task", "classify", "--home", str(place), "--model", "tiny"]
    where = [str(place / "texts.jsonl"), "-o", str(tmp_path / "made")]
    run = CliRunner().invoke(
        train_command, [*where, *flags, "-r", "2", "--epochs", "1", "--licence", "MIT"]
    )
    assert run.exit_code == 0, run.output
    assert "trained made: 3 labels" in run.output
    config = json.loads((tmp_path / "made" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 4)
    quoted = json.loads((tmp_path / "made" / "card.json").read_text())["examples"]
    assert set(quoted) <= {text for text, label in TEXTS if label}
    assert "| licence | MIT |" in (tmp_path / "made" / "README.md").read_text()
    refused = CliRunner().invoke(train_command, [*where, *flags, "--schedule", "linear"])
    assert refused.exit_code == 2
    assert "--schedule: not for --task classify" in refused.output


def test_what_can_not_be_trained_is_refused_and_leaves_nothing(place, trained, tmp_path):
    for changes, words in (
        ({"targets": ("dense",)}, "target module 'dense' does not exist in this encoder"),
        ({"r": 0}, "r is 0: the rank must be 1 to"),
        ({"learning_rate": 1e9}, "training diverged"),
        ({"consistency": float("nan")}, "consistency must be 0 or more"),
        ({"consistency": 1.0, "dropout": 0.0}, "consistency needs dropout"),
    ):
        settings = {"epochs": 2, "threads": 1, **changes}
        with pytest.raises(ToolchainError, match=words):
            train(job(place), ClassificationOptions(**settings), tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ToolchainError, match="exists: choose another"):
        train(job(place), OPTIONS, trained[0])
    with pytest.raises(ToolchainError, match="is not prepared"):
        train(job(place, model_directory=tmp_path), OPTIONS, tmp_path / "none")
