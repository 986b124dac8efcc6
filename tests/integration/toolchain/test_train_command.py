"""`edgelora train` from its flags to what lies in the output."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from edgelora.cli.main import run
from tests.support.training_runs import tiny_base, training_job

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home: Path = tmp_path_factory.mktemp("home")
    tiny_base(home)
    return home


@pytest.fixture
def train(home, tmp_path, capsys):
    data = training_job(home, tmp_path).train_file
    output = tmp_path / "words"
    fixed = ["train", str(data), "-o", str(output), "--home", str(home), "--model", "tiny"]

    def command(*flags: str) -> tuple[int, str, str]:
        status = run([*fixed, "--threads", "1", *flags])
        return status, *capsys.readouterr()

    return command


def test_an_interrupted_run_says_how_to_go_on_and_can_be_started_over(train, tmp_path) -> None:
    unfinished = tmp_path / ".words.training"

    def interrupt() -> None:
        while not any(unfinished.glob("*.checkpoint")):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    long = ("--epochs", "1e7", "--force", "--checkpoint-steps", "1", "--ranks", "8,4,2")
    status, _, said = train(*long)
    thread.join()
    assert status == 130
    assert said.rstrip().endswith("with --resume goes on from the checkpoint")

    short = (
        "--ranks",
        "8,4",
        "--early-stop",
        "1",
        "--held-out",
        "0.3",
        "--permission",
        "media: tv",
    )
    assert "--resume, or start over with --replace" in train(*short)[2]
    status, out, said = train(*short, "--replace", "--example", "say fog", "--json")
    assert status == 0, said
    report = json.loads(out)["words"]
    assert [one["directory"] for one in report["ranks"]] == [".", "rank-4"]
    assert (report["data"]["train_examples"], report["data"]["test_examples"]) == (4, 2)
    assert report["run"]["held_out_curve"]
    assert report["adapter"]["permissions"] == ["media: tv"]
    card = json.loads((tmp_path / "words" / "card.json").read_text())
    assert card["examples"] == ["say fog"]
    assert not unfinished.exists()


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--rank", "8", "--ranks", "8,4"), 2, "--ranks for several"),
        (("--rank-budget", "r4"), 2, "--rank-budget needs --rank auto"),
        (("--rank", "many"), 2, "give a whole number, or auto"),
        (("--rank", "auto", "--rank-budget", "much"), 1, "rank budget: write r16"),
        (("--early-stop", "1", "--held-out", "0"), 1, "early stopping needs test data"),
        (("--task", "classify", "--ranks", "8,4"), 2, "--ranks: not for --task classify"),
        (("--device", "cuda"), 1, "torch finds no CUDA device"),
    ],
)
def test_flags_that_make_no_sense_are_refused(train, flags, status, message) -> None:
    if "cuda" in flags and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    given, _, said = train(*flags)
    assert given == status
    assert message in said
