"""A router from measured losses: three tiny adapters, from training to evaluation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from edgelora.cli.main import run
from edgelora.routing import Router
from edgelora.toolchain.chat_data import Conversation, encode, write_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import held_out_loss
from edgelora.toolchain.lora_model import load_base, load_tokenizer
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.router_card import write_routing_card
from edgelora.toolchain.router_evaluation import evaluate_router
from edgelora.toolchain.router_fit import FitOptions
from edgelora.toolchain.router_losses import choose_measured, measure_losses, measuring_precision
from edgelora.toolchain.router_sources import Source, find_adapters, read_sources
from edgelora.toolchain.router_training import RouterJob, is_current, train_router
from edgelora.toolchain.router_twin import NetworkShape
from edgelora.toolchain.train import TrainingJob, train
from edgelora.toolchain.training_options import TrainingOptions
from tests.support.tiny_families import save_directory, tiny_model

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

ANSWERS = {"cooking": "aaaa", "lights": "bbbb", "trains": "cccc"}
QUESTIONS = {
    "cooking": "how do I bake {}?",
    "lights": "turn on lamp {}",
    "trains": "when does the train to {} leave",
}
THINGS = [f"{sound}{end}" for sound in ("ba", "co", "di", "fu", "ge", "ho") for end in "lmnprs"]
OUTSIDE = ["what is the meaning of life", "sing me a song", "who won the match"]
OPTIONS = FitOptions(
    steps=200, shape=NetworkShape(num_buckets=2048, embedding=16, channels=8, width=16, hidden=16)
)


def conversations(name: str, things: list[str]) -> list[Conversation]:
    return [
        [
            {"role": "user", "content": QUESTIONS[name].format(thing)},
            {"role": "assistant", "content": ANSWERS[name]},
        ]
        for thing in things
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared model in models/m, and an adapter for each domain, with data and card."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("home")
    save_directory(tiny_model("llama"), home / "source")
    prepare(home / "source", home, "m", weights="float32")
    options = TrainingOptions(
        r=4, alpha=16, epochs=3, learning_rate=2e-2, threads=1, batch_tokens=256
    )
    for name in ANSWERS:
        directory = home / "adapters" / name
        data = home / f"{name}.jsonl"
        write_conversations(data, conversations(name, THINGS[:24]))
        train(
            TrainingJob(name=name, model_directory=home / "models" / "m", train_file=data),
            options,
            directory,
        )
        (directory / "data").mkdir()
        shutil.move(data, directory / "data" / "train.jsonl")
        write_conversations(directory / "data" / "test.jsonl", conversations(name, THINGS[24:]))
        write_routing_card(directory, f"All about {name}.", conversations(name, THINGS[:8]))
    (home / "outside.txt").write_text("\n".join(OUTSIDE))
    return home


def sources(home: Path, file: str = "train.jsonl") -> list[Source]:
    adapters = find_adapters([home / "adapters"])
    return read_sources(adapters, {name: path / "data" / file for name, path in adapters.items()})


def job(home: Path, losses: Path, **changes: object) -> RouterJob:
    given = RouterJob(
        sources=sources(home),
        out_of_scope=OUTSIDE,
        model_directory=home / "models" / "m",
        losses_directory=losses,
        samples=16,
        threads=1,
        options=OPTIONS,
    )
    return replace(given, **changes)


def test_losses_are_those_of_the_adapter(home: Path, tmp_path: Path) -> None:
    source = sources(home, "test.jsonl")[0]
    model = home / "models" / "m"
    losses, count = measure_losses(source.conversations, [source], model, tmp_path)
    assert losses.shape == (12, 2)
    assert count == 24
    tokenizer = load_tokenizer(model)
    examples = [encode(one, tokenizer, max_tokens=99, where="") for one in source.conversations]
    base = load_base(model, measuring_precision()[1])
    expected_base = held_out_loss(base, examples, tokenizer.pad_token_id)
    expected = held_out_loss(
        PeftModel.from_pretrained(base, source.directory), examples, tokenizer.pad_token_id
    )
    # All answers have the same number of tokens. bfloat16 leaves some room.
    assert losses.mean(0) == pytest.approx([expected_base, expected], rel=0.03)
    assert measure_losses(source.conversations, [source], model, tmp_path)[1] == 0


def test_damaged_losses_are_measured_again(home: Path, tmp_path: Path) -> None:
    source = sources(home, "test.jsonl")[0]
    model = home / "models" / "m"
    before, _ = measure_losses(source.conversations[:2], [source], model, tmp_path)
    for path in tmp_path.iterdir():
        path.write_text("{")
    after, count = measure_losses(source.conversations[:2], [source], model, tmp_path)
    assert count == 4
    assert after.tolist() == before.tolist()


def test_a_router_beats_the_best_single_adapter(home: Path, tmp_path: Path) -> None:
    report = train_router(job(home, tmp_path / "losses"), tmp_path / "router")
    for facts in report.domains:
        assert facts.adapter_loss < facts.base_loss
    assert report.losses_measured == 3 * 16 * 4
    assert report.unseen_accuracy is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["losses", "report.json", "router"]

    found = evaluate_router(
        Router.load(tmp_path / "router"),
        sources(home, "test.jsonl"),
        OUTSIDE,
        model_directory=home / "models" / "m",
        losses_directory=tmp_path / "losses",
        samples=8,
    )
    assert found.texts == 36
    assert found.measured == 24
    assert found.accuracy >= 0.9
    assert found.losses.gain is not None
    assert found.losses.gain >= 0.8
    assert found.losses.oracle <= found.losses.task_prior <= found.losses.best_single
    assert found.out_of_scope is not None
    assert found.out_of_scope.recall >= 2 / 3


def test_the_same_seed_gives_the_same_router_and_measures_nothing_again(
    home: Path, tmp_path: Path
) -> None:
    short = replace(OPTIONS, steps=5)
    reports = [
        train_router(
            job(home, tmp_path / "losses", options=replace(short, seed=seed)), tmp_path / "router"
        )
        for seed in (1, 1, 2)
    ]
    assert reports[0].file_sha256 == reports[1].file_sha256 != reports[2].file_sha256
    assert [report.losses_measured for report in reports] == [3 * 16 * 4, 0, 0]


def test_adapters_that_training_never_saw_are_reported(home: Path, tmp_path: Path) -> None:
    short = job(home, tmp_path / "losses", options=replace(OPTIONS, steps=60), samples=2)
    unseen = train_router(short, tmp_path / "router", with_unseen=True).unseen_accuracy
    assert unseen is not None
    assert set(unseen) == set(ANSWERS)
    assert sum(unseen.values()) / 3 > 1 / 4


def test_only_what_is_new_is_measured(home: Path, tmp_path: Path) -> None:
    short = replace(OPTIONS, steps=2)
    before = job(home, tmp_path / "losses", options=short, samples=4)
    router = tmp_path / "router"
    train_router(before, router)
    assert is_current(before, router)

    # A fourth adapter comes: another seed, the texts of a domain that is known.
    adapters = find_adapters([home / "adapters"])
    data = {name: path / "data" / "train.jsonl" for name, path in adapters.items()}
    fourth = tmp_path / "fourth"
    train(
        TrainingJob(
            name="fourth", model_directory=home / "models" / "m", train_file=data["cooking"]
        ),
        TrainingOptions(r=2, alpha=4, epochs=1, threads=1),
        fourth,
    )
    write_routing_card(fourth, "", conversations("cooking", THINGS[:3]))
    more = read_sources(adapters | {"fourth": fourth}, data | {"fourth": data["cooking"]})
    after = replace(before, sources=more)
    assert not is_current(after, router)
    # Four texts of each of three domains under the new adapter; the fourth domain's are cooking's.
    assert train_router(after, router).losses_measured == 12
    assert is_current(after, router)
    assert not is_current(before, router)
    # It goes again: all is known.
    assert train_router(before, router).losses_measured == 0

    for changed in (
        replace(before, samples=5),
        replace(before, out_of_scope=["other"]),
        replace(before, options=replace(short, seed=9)),
    ):
        assert not is_current(changed, router)
    router.write_bytes(router.read_bytes() + b"\0")
    assert not is_current(before, router)
    router.unlink()
    assert not is_current(before, router)


def test_an_adapter_of_another_model_is_refused(home: Path, tmp_path: Path) -> None:
    save_directory(tiny_model("llama", hidden_size=32), tmp_path / "source")
    prepare(tmp_path / "source", tmp_path, "other", weights="float32")
    other = job(home, tmp_path / "losses", model_directory=tmp_path / "models" / "other")
    with pytest.raises(ToolchainError, match="'cooking' does not fit the model"):
        train_router(other, tmp_path / "router")
    assert not (tmp_path / "router").exists()


def test_a_choice_of_samples_outlives_growth_and_order(home: Path) -> None:
    data = conversations("cooking", THINGS)
    chosen = {data[index][0]["content"] for index in choose_measured(data, 8)}
    backwards = data[::-1]
    assert {backwards[index][0]["content"] for index in choose_measured(backwards, 8)} == chosen
    fewer = data[:-3]
    again = {fewer[index][0]["content"] for index in choose_measured(fewer, 8)}
    assert len(chosen & again) >= 5


def test_commands(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [str(home / "adapters"), "--home", str(home), "--model", "m", "--threads", "1"]
    common += ["--out-of-scope", str(home / "outside.txt"), "--samples", "8", "--json"]
    settings = ["--steps", "20", "--if-changed"]
    assert run(["router", "train", *common, *settings]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["changed"]
    assert report["file_bytes"] == (home / "router" / "router.safetensors").stat().st_size
    assert run(["router", "train", *common, *settings]) == 0
    assert json.loads(capsys.readouterr().out) == {"changed": False}
    assert run(["router", "eval", *common]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["adapters"] == sorted(ANSWERS)
    assert found["decision"]["candidates"] == 64
    assert {"random", "task_prior", "best_single", "oracle"} <= found["losses"].keys()
    assert run(["router", "eval", *common[:-1]]) == 0
    assert "task prior" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--adapter", "x"], "--adapter needs NAME=PATH"),
        (["--data", "x=y", "--data", "x=z"], "names one adapter twice"),
        (["--steps", "0"], "steps is 0"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--samples", "0"], "samples is 0"),
    ],
)
def test_wrong_usage(
    home: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [str(home / "adapters"), "--home", str(home), "--model", "m"]
    assert run(["router", "train", *common, *arguments]) != 0
    assert message in capsys.readouterr().err


def test_ctrl_c_leaves_the_old_router(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "router.safetensors"
    output.write_bytes(b"the old one")
    command = [sys.executable, "-c", "from edgelora.cli.main import main; main()"]
    command += ["router", "train", str(home / "adapters"), "--home", str(home), "--model", "m"]
    command += ["--output", str(output), "--samples", "4", "--steps", "1000000", "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Training the router"):
            break
    os.kill(process.pid, signal.SIGINT)
    assert "interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["router.safetensors"]
    assert output.read_bytes() == b"the old one"
