"""Training on the real model: it learns, its output loads in PEFT, and bad input is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from peft import PeftModel

from edgelora.toolchain.chat_data import IGNORED, encode, write_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import held_out_loss
from edgelora.toolchain.lora_model import load_base, load_tokenizer
from edgelora.toolchain.prepare import prepare
from edgelora.toolchain.train import TrainingJob, train
from edgelora.toolchain.training_options import TrainingOptions
from tests.support.prepared_model import prepared_model
from tests.support.tiny_families import save_directory, tiny_model
from tests.support.tiny_llama import save_tiny_llama

pytestmark = [
    pytest.mark.integration,
    # PEFT 0.21 still asks transformers 5 by the older name.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

CONVERSATIONS = [
    [
        {"role": "user", "content": f"Say the word number {number}."},
        {"role": "assistant", "content": f"zebra zebra {word} zebra"},
    ]
    for number, word in enumerate(("fog", "lamp", "river", "stone"))
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared model so small that training it takes no time."""
    home = tmp_path_factory.mktemp("home")
    save_tiny_llama(home / "source")
    prepare(home / "source", home, "tiny", weights="float32")
    return home / "models" / "tiny"


def job(model: Path, data: Path, **changes: object) -> TrainingJob:
    return TrainingJob(name="zebra", model_directory=model, train_file=data, **changes)  # type: ignore[arg-type]


def test_two_steps_lower_the_loss_and_peft_loads_the_result(tmp_path: Path) -> None:
    model = prepared_model()
    data = tmp_path / "data.jsonl"
    write_conversations(data, CONVERSATIONS)
    options = TrainingOptions(r=4, alpha=16, learning_rate=5e-3, epochs=2, threads=1)
    report = train(job(model, data, test_file=data), options, tmp_path / "zebra")
    assert report.run.steps == 2
    assert report.held_out_loss["adapter"] < report.held_out_loss["base"]

    names = {path.name for path in (tmp_path / "zebra").iterdir()}
    files = {"adapter_config.json", "adapter_model.safetensors", "README.md", "report.json"}
    files |= {"probe.jsonl", "report.md", "loss.svg", "quality.svg", "energy.svg"}
    assert names == files
    weights = safetensors.torch.load_file(tmp_path / "zebra" / "adapter_model.safetensors")
    assert len(weights) == 2 * 7 * 30
    assert all(tensor.dtype == torch.float16 for tensor in weights.values())

    tokenizer = load_tokenizer(model)
    examples = [encode(one, tokenizer, max_tokens=99, where="") for one in CONVERSATIONS]
    loaded = PeftModel.from_pretrained(load_base(model, torch.float32), tmp_path / "zebra")
    loss = held_out_loss(loaded, examples, tokenizer.pad_token_id)
    assert loss == pytest.approx(report.held_out_loss["adapter"], abs=1e-3)


def test_only_what_the_assistant_wrote_carries_loss() -> None:
    tokenizer = load_tokenizer(prepared_model())
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three?"},
        {"role": "assistant", "content": "Four."},
    ]
    example = encode(conversation, tokenizer, max_tokens=200, where="")
    learned = [label for label in example.labels if label != IGNORED]
    assert tokenizer.decode(learned) == "Two.<|im_end|>Four.<|im_end|>"
    whole = tokenizer.apply_chat_template(conversation, tokenize=False)
    assert tokenizer.decode(example.token_ids) == whole.removesuffix("\n")
    assert example.token_ids == tokenizer(whole.removesuffix("\n"))["input_ids"]
    assert all(
        label in (IGNORED, token)
        for label, token in zip(example.labels, example.token_ids, strict=True)
    )


def test_example_over_the_limit_is_refused_with_both_numbers(tiny: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    write_conversations(data, [*CONVERSATIONS[:1], [*CONVERSATIONS[1], *CONVERSATIONS[2]]])
    options = TrainingOptions(alpha=8, max_example_tokens=50)
    with pytest.raises(ToolchainError, match=r"data.jsonl, line 2 has \d+ tokens.* limit is 50"):
        train(job(tiny, data), options, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r": 0, "alpha": 8.0}, "r is 0"),
        ({"r": 4}, "alpha is missing"),
        ({"alpha": 8.0, "targets": ("c_attn",)}, "'c_attn' does not exist"),
        ({"alpha": 8.0, "epochs": 4.0}, "at most 3"),
    ],
)
def test_impossible_run_leaves_nothing(
    tiny: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    write_conversations(tmp_path / "data.jsonl", CONVERSATIONS)
    with pytest.raises(ToolchainError, match=message):
        train(
            job(tiny, tmp_path / "data.jsonl"),
            TrainingOptions(**options),  # type: ignore[arg-type]
            tmp_path / "out",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_unprepared_model_missing_data_and_existing_output_are_refused(
    tiny: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.jsonl"
    write_conversations(data, CONVERSATIONS)
    options = TrainingOptions(alpha=8)
    with pytest.raises(ToolchainError, match="is not prepared: run `edgelora model prepare"):
        train(job(tmp_path / "nowhere", data), options, tmp_path / "out")
    with pytest.raises(ToolchainError, match="not found"):
        train(job(tiny, tmp_path / "missing.jsonl"), options, tmp_path / "out")
    (tmp_path / "out").mkdir()
    with pytest.raises(ToolchainError, match="'out' exists"):
        train(job(tiny, data), options, tmp_path / "out")


def test_too_much_data_for_the_base_is_refused(tiny: Path, tmp_path: Path) -> None:
    write_conversations(tmp_path / "data.jsonl", CONVERSATIONS)
    with pytest.raises(ToolchainError, match="at most 3 %"):
        train(
            job(tiny, tmp_path / "data.jsonl", base_training_tokens=1000),
            TrainingOptions(alpha=8),
            tmp_path / "out",
        )


@pytest.mark.parametrize("use_rslora", [False, True])
def test_chosen_modules_rank_and_scaling_reach_the_files(
    tiny: Path, tmp_path: Path, use_rslora: bool
) -> None:
    write_conversations(tmp_path / "data.jsonl", CONVERSATIONS)
    options = TrainingOptions(
        r=3, alpha=7.5, targets=("q_proj", "down_proj"), dropout=0.1, use_rslora=use_rslora
    )
    report = train(job(tiny, tmp_path / "data.jsonl"), options, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["use_rslora"]) == (3, 7.5, use_rslora)
    assert config["target_modules"] == ["down_proj", "q_proj"]
    assert config["base_model_name_or_path"] == "tiny"
    assert str(tmp_path) not in (tmp_path / "out" / "adapter_config.json").read_text()
    weights = safetensors.torch.load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == report.adapter.parameters
    assert report.held_out_loss == {}
    assert report.data.data_share is None


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3"])
def test_every_family_is_trained(tmp_path: Path, family: str) -> None:
    save_directory(tiny_model(family), tmp_path / "source")
    prepare(tmp_path / "source", tmp_path, "m", weights="float32")
    data = tmp_path / "data.jsonl"
    write_conversations(
        data, [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]
    )
    options = TrainingOptions(r=2, alpha=8, epochs=3, learning_rate=1e-2, threads=1)
    report = train(job(tmp_path / "models" / "m", data, test_file=data), options, tmp_path / "out")
    assert report.held_out_loss["adapter"] < report.held_out_loss["base"]


def test_same_seed_gives_the_same_weights(tiny: Path, tmp_path: Path) -> None:
    write_conversations(tmp_path / "data.jsonl", CONVERSATIONS)
    digests = [
        train(
            job(tiny, tmp_path / "data.jsonl"),
            TrainingOptions(alpha=8, dropout=0.1, seed=seed, threads=1),
            tmp_path / f"out-{run}",
        ).adapter.weights_sha256
        for run, seed in enumerate((1, 1, 2))
    ]
    assert digests[0] == digests[1] != digests[2]
