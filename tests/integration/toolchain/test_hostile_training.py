"""Data, checkpoints and outputs of a training that are not what they should be."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path

import pytest
import torch

from edgelora.toolchain.chat_data import write_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.train import train, unfinished_run
from edgelora.toolchain.training_checkpoint import CheckpointFile
from edgelora.toolchain.training_options import TrainingOptions
from tests.support.training_runs import CONVERSATIONS, tiny_base, training_job

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

OPTIONS = TrainingOptions(r=2, alpha=4.0, epochs=1.0, force=True, threads=1, checkpoint_steps=1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("home"))


class _Payload:
    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self):
        return os.mkdir, (str(self._place),)


def test_no_checkpoint_is_run_and_none_that_is_not_ours_gone_on_with(
    tiny, tmp_path, monkeypatch
) -> None:
    job, output = training_job(tiny, tmp_path), tmp_path / "words"
    place = unfinished_run(output) / "rank-2.checkpoint"
    place.parent.mkdir()
    place.write_bytes(pickle.dumps({"identity": _Payload(tmp_path / "was-run")}))

    def resumed() -> str:
        with pytest.raises(ToolchainError) as refused:
            train(job, OPTIONS, output, resume=True)
        assert not output.exists() and place.exists()
        return str(refused.value)

    assert "is damaged: start over with --replace" in resumed()
    torch.save({"identity": [_Payload(tmp_path / "was-run")]}, place)
    assert "is damaged" in resumed()
    assert not (tmp_path / "was-run").exists()

    identities = []
    load = CheckpointFile.load
    monkeypatch.setattr(
        CheckpointFile, "load", lambda file: identities.append(file._identity) or load(file)
    )
    for state in (
        {},
        {"identity": 7},
        {"identity": {"seed": []}},
        {"run": {"step": 1}},
        {"run": {"nothing_of_ours": 1}, "adapter": {}},
        {"run": {}, "adapter": {"other": torch.ones(2)}, "optimizer": {}, "random": None},
    ):
        torch.save({"identity": identities[-1] if identities else {}, **state}, place)
        assert "--replace" in resumed()


def test_replace_removes_nothing_but_results(tiny, tmp_path) -> None:
    output = tmp_path / "letters"
    output.mkdir()
    job = training_job(tiny, output)
    with pytest.raises(ToolchainError, match="is no result of a training"):
        train(job, OPTIONS, output, replace=True)
    with pytest.raises(ToolchainError, match="is no result of a training"):
        train(job, OPTIONS, job.train_file, replace=True)
    for name in ("README.md", "report.json"):
        (output / name).write_text("of a result")
    with pytest.raises(ToolchainError, match="the data lie in the output"):
        train(job, OPTIONS, output, replace=True)
    assert sorted(path.name for path in output.iterdir()) == [
        *("README.md", "data.jsonl", "report.json")
    ]


def test_line_ends_and_controls_in_prompts_cost_no_training(tiny, tmp_path) -> None:
    job = training_job(tiny, tmp_path, test_file=None, quotes_data=True)
    texts = ["one\r\nline", "bell\x07", "<!-- hidden"]
    write_conversations(
        job.train_file,
        [
            [{"role": "user", "content": text}, {"role": "assistant", "content": "fog"}]
            for text in texts
        ],
    )
    train(job, OPTIONS, tmp_path / "words")
    card = json.loads((tmp_path / "words" / "card.json").read_text())
    assert card["examples"] == ["one\nline", "<!-- hidden"]
    assert "> ` <!-- hidden `" in (tmp_path / "words" / "README.md").read_text()


def test_data_of_a_pipe_are_read_once_and_named_by_their_hash(tiny, tmp_path) -> None:
    data = training_job(tiny, tmp_path).train_file.read_bytes()
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    job = training_job(tiny, tmp_path, train_file=Path(f"/proc/self/fd/{reader}"), test_file=None)
    report = train(job, OPTIONS, tmp_path / "words")
    os.close(reader)
    assert report.data.train_examples == len(CONVERSATIONS)
    assert report.data.train_sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("roles", [["assistant"], ["assistant", "user", "assistant"]])
def test_roles_that_the_template_refuses_are_named_by_their_line(tiny, tmp_path, roles) -> None:
    job = training_job(tiny, tmp_path, test_file=None)
    odd = [{"role": role, "content": "fog"} for role in roles]
    write_conversations(job.train_file, [*CONVERSATIONS[:1], odd])
    with pytest.raises(ToolchainError, match=r"line 2: .*refuses these roles"):
        train(job, OPTIONS, tmp_path / "words")
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_checkpoint_that_cannot_be_written_keeps_the_last_one_alone(tmp_path) -> None:
    file = CheckpointFile(tmp_path / "state", {})
    file.save({"value": 1})
    with pytest.raises(AttributeError):  # half-way: no file takes a function made here
        file.save({"value": torch.ones(1000), "more": lambda: None})
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert file.load() == {"value": 1}
