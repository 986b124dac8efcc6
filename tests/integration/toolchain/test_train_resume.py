"""Trainings that are killed, stopped, or short of memory; early stopping; recomputed layers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from edgelora.toolchain.chat_data import encode, write_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.lora_model import add_lora, load_base, load_tokenizer
from edgelora.toolchain.train import train, unfinished_run
from edgelora.toolchain.training_checkpoint import CheckpointFile
from edgelora.toolchain.training_options import TrainingOptions
from tests.support.training_runs import CONVERSATIONS, TrainingProcesses, tiny_base, training_job

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

SETTINGS = {
    "r": 4, "alpha": 8.0, "dropout": 0.2, "epochs": 15.0, "force": True, "threads": 1,
    "batch_tokens": 64, "learning_rate": 1e-3, "checkpoint_steps": 1,
}  # fmt: skip
LONG = {**SETTINGS, "epochs": 1e7}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def processes() -> Iterator[TrainingProcesses]:
    started = TrainingProcesses()
    yield started
    started.close()


def checkpoint_of(output: Path) -> Path:
    return unfinished_run(output) / "rank-4.checkpoint"


def until_checkpoint(process: int, output: Path) -> None:
    """Returns once the process has saved its state; the test's own limit ends the wait."""
    while not checkpoint_of(output).exists():
        os.kill(process, 0)


def test_a_killed_run_resumed_equals_an_uninterrupted_one_bit_for_bit(
    tiny, tmp_path, processes
) -> None:
    job, killed = training_job(tiny, tmp_path), tmp_path / "killed"
    process = processes.start(job, SETTINGS, killed, tmp_path / "errors")
    until_checkpoint(process, killed)
    os.kill(process, signal.SIGKILL)
    assert processes.wait() == -signal.SIGKILL
    assert not killed.exists()

    options = TrainingOptions(**{**SETTINGS, "checkpoint_steps": 25})
    with pytest.raises(ToolchainError, match=r"unfinished training of 'killed' .* --resume"):
        train(job, options, killed)
    resumed = train(job, options, killed, resume=True)
    whole = train(job, options, tmp_path / "whole")
    assert 0 < resumed.run.resumed_at[0] < resumed.run.steps
    assert whole.run.resumed_at == []
    assert resumed.adapter.weights_sha256 == whole.adapter.weights_sha256
    assert resumed.run.loss_curve == whole.run.loss_curve
    assert not checkpoint_of(killed).exists(), "nothing is left to resume"


def test_a_terminated_run_leaves_its_checkpoint_alone(tiny, tmp_path, processes) -> None:
    job, output = training_job(tiny, tmp_path), tmp_path / "stopped"
    process = processes.start(job, LONG, output, tmp_path / "errors")
    until_checkpoint(process, output)
    os.kill(process, signal.SIGTERM)
    assert processes.wait() == 130
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"data.jsonl", "errors", ".stopped.training"}
    state = torch.load(checkpoint_of(output), weights_only=True)
    assert state["run"]["step"] >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "memory ran out: try --gradient-checkpointing"),
        ({"gradient_checkpointing": True}, "batch-tokens"),
    ],
)
def test_memory_that_runs_out_gives_advice(tiny, tmp_path, processes, changes, message) -> None:
    long = [{"role": "user", "content": "a " * 90}, {"role": "assistant", "content": "b"}]
    job = training_job(tiny, tmp_path)
    write_conversations(job.train_file, [long] * 256)
    options = {**LONG, **changes, "batch_tokens": 60_000}
    errors = tmp_path / "errors"
    processes.start(job, options, tmp_path / "big", errors, spare_bytes=64 << 20)
    assert processes.wait() == 1
    said = errors.read_text().splitlines()
    assert message in said[-1]
    assert not any("Traceback" in line for line in said)


def test_the_state_of_another_run_or_a_damaged_one_is_refused(tmp_path) -> None:
    place = tmp_path / "state"
    CheckpointFile(place, {"seed": "1", "r": "4"}).save({"value": torch.ones(2)})
    assert CheckpointFile(place, {"seed": "1", "r": "4"}).load()["value"].tolist() == [1, 1]
    with pytest.raises(ToolchainError, match=r"had another seed: .* --replace"):
        CheckpointFile(place, {"seed": "2", "r": "4"}).load()
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(ToolchainError, match="is damaged"):
        CheckpointFile(place, {}).load()
    assert CheckpointFile(tmp_path / "none", {}).load() is None


def test_early_stopping_keeps_the_best_state(tiny, tmp_path) -> None:
    test_file = tmp_path / "test.jsonl"
    # Words that training never says: learning it by heart makes them ever less likely.
    write_conversations(
        test_file,
        [
            [
                {"role": "user", "content": "the fog please"},
                {"role": "assistant", "content": "QQ XX"},
            ]
        ],
    )
    job = training_job(tiny, tmp_path, test_file=test_file)
    settings = {**SETTINGS, "learning_rate": 2e-2, "dropout": 0.0, "early_stop": 2}
    report = train(job, TrainingOptions(**settings), tmp_path / "best")
    run = report.run
    losses = dict(run.held_out_curve)
    assert run.stopped_early
    assert run.steps < 45
    assert losses[run.best_step] == min(losses.values())
    assert len([step for step in losses if step > run.best_step]) == 2
    # In fp32 and with the rounded weights; the curve is in the precision of training.
    assert report.held_out_loss["adapter"] == pytest.approx(min(losses.values()), rel=0.02)
    assert losses[run.steps] > report.held_out_loss["adapter"]


def test_layers_computed_again_give_the_same_gradients(tiny) -> None:
    tokenizer = load_tokenizer(tiny)
    example = encode(CONVERSATIONS[0], tokenizer, max_tokens=99, where="")
    ids = torch.tensor([example.token_ids])
    gradients, calls = [], []
    for again in (False, True):
        torch.manual_seed(3)
        options = TrainingOptions(r=4, alpha=8, gradient_checkpointing=again)
        model = add_lora(load_base(tiny, torch.float32), options, "tiny").train()
        count: list[int] = []
        attention = model.get_base_model().model.layers[0].self_attn
        attention.register_forward_hook(lambda *_, count=count: count.append(1))
        model(ids, use_cache=False).logits.square().mean().backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
        calls.append(len(count))
    assert calls == [1, 2]
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    assert any(bool(one.any()) for one in gradients[0])
