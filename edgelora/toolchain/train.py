"""Fine-tunes a LoRA adapter on chat data and writes it as a plain PEFT directory."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgelora.toolchain.batches import batches_by_length, learning_rate_share
from edgelora.toolchain.chat_data import Conversation, Example, encode, read_conversations
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.evaluation import assistant_loss, held_out_loss, pad
from edgelora.toolchain.lora_model import (
    WEIGHTS_FILE,
    add_lora,
    load_base,
    load_tokenizer,
    reload_adapter,
    save_adapter,
)
from edgelora.toolchain.probe_file import write_probe
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.published_directory import published_directory
from edgelora.toolchain.training_options import BASE_TRAINING_TOKENS, TrainingOptions, data_share
from edgelora.toolchain.training_report import (
    AdapterFacts,
    DataFacts,
    RunFacts,
    TrainingReport,
    write_card,
)
from services.chassis.base_model import FLOAT32_FILE, BaseModel

_CURVE_POINTS = 40

TaskMeasure = Callable[[Any, Any, list[Conversation]], float]
"""(model, tokenizer, test conversations) -> a share, measured for the base and the adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What to train on what."""

    name: str
    model_directory: Path
    train_file: Path
    test_file: Path | None = None
    description: str = "A LoRA adapter."
    base_training_tokens: int | None = None
    """Tokens the base was trained on; None looks the model up in `BASE_TRAINING_TOKENS`."""
    task: tuple[str, TaskMeasure] | None = None
    """A further measure on the test data and its name."""


def train(
    job: TrainingJob, options: TrainingOptions, output: Path, *, replace: bool = False
) -> TrainingReport:
    """Trains and publishes `output` at once when everything is done; progress goes to stderr.

    `output` holds adapter_config.json, adapter_model.safetensors (fp16), README.md, report.json
    and, when there is test data, probe.jsonl.
    Raises ToolchainError for unusable data or settings, or when `output` exists and `replace` is
    false. Ctrl-C leaves nothing behind.
    """
    if output.exists() and not replace:
        raise ToolchainError(
            f"output {output.name!r} exists: choose another, or replace it with --replace"
        )
    with published_directory(output) as directory:
        return train_into(job, options, directory)


def train_into(job: TrainingJob, options: TrainingOptions, directory: Path) -> TrainingReport:
    """As `train`, into an existing directory, file by file."""
    base = prepared_base(job.model_directory)
    options.check(base.targets)
    tokenizer = load_tokenizer(job.model_directory)
    train_data = _encode_file(job.train_file, tokenizer, options.max_example_tokens)
    test_conversations = read_conversations(job.test_file) if job.test_file else []
    test_data = (
        _encode_file(job.test_file, tokenizer, options.max_example_tokens) if job.test_file else []
    )
    base_tokens = job.base_training_tokens or BASE_TRAINING_TOKENS.get(base.name)
    train_tokens = sum(len(example.token_ids) for example in train_data)
    share = data_share(train_tokens, base_tokens, force=options.force)

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    dtype = _training_dtype(options)
    model = add_lora(load_base(job.model_directory, dtype), options, base.name)
    started = time.monotonic()
    curve, steps = _fit(model, train_data, options, tokenizer.pad_token_id)
    wall_seconds = time.monotonic() - started
    save_adapter(model, directory)
    write_probe(directory, test_conversations, tokenizer)
    del model

    weights = directory / WEIGHTS_FILE
    losses, task = _measure(job, options, base, tokenizer, test_data, test_conversations, directory)
    report = TrainingReport(
        adapter=AdapterFacts(
            name=job.name,
            base_model=base.name,
            base_digest=base.digest,
            r=options.r,
            alpha=options.alpha or 0.0,
            targets=list(options.targets),
            dropout=options.dropout,
            use_rslora=options.use_rslora,
            parameters=_parameters(options, base),
            weights_bytes=weights.stat().st_size,
            weights_sha256=_sha256(weights),
        ),
        data=DataFacts(
            train_examples=len(train_data),
            train_tokens=train_tokens,
            train_loss_tokens=sum(example.loss_tokens for example in train_data),
            train_sha256=_sha256(job.train_file),
            test_examples=len(test_data),
            test_loss_tokens=sum(example.loss_tokens for example in test_data),
            test_sha256=_sha256(job.test_file) if job.test_file else None,
            base_training_tokens=base_tokens,
            data_share=share,
        ),
        run=RunFacts(
            epochs=options.epochs,
            steps=steps,
            learning_rate=options.learning_rate,
            schedule=options.schedule,
            warmup_share=options.warmup_share,
            weight_decay=options.weight_decay,
            max_grad_norm=options.max_grad_norm,
            batch_tokens=options.batch_tokens,
            seed=options.seed,
            precision=str(dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            wall_seconds=round(wall_seconds, 1),
            loss_curve=curve,
        ),
        held_out_loss=losses,
        task=task,
        versions=_versions(),
    )
    report.save(directory)
    write_card(report, directory, job.description)
    return report


def prepared_base(directory: Path) -> BaseModel:
    """Describes a prepared model with fp32 weights. Raises ToolchainError when it is not there."""
    try:
        base = BaseModel.load(directory)
        base.verify_file(directory, FLOAT32_FILE)
    except FileNotFoundError as error:
        raise ToolchainError(
            f"model {directory.name!r} is not prepared: "
            "run `edgelora model prepare --weights float32` first"
        ) from error
    except ValueError as error:
        raise ToolchainError(str(error)) from error
    return base


def _encode_file(path: Path, tokenizer: Any, max_tokens: int) -> list[Example]:
    return [
        encode(one, tokenizer, max_tokens=max_tokens, where=f"{path.name}, example {number}")
        for number, one in enumerate(read_conversations(path), start=1)
    ]


def _training_dtype(options: TrainingOptions) -> torch.dtype:
    if options.precision != "auto":
        return torch.float32 if options.precision == "float32" else torch.bfloat16
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def _fit(
    model: Any, examples: list[Example], options: TrainingOptions, pad_id: int
) -> tuple[list[tuple[int, float]], int]:
    """Runs the training steps; returns the loss curve and the number of steps."""
    order = random.Random(options.seed)  # noqa: S311 - shuffling, no secret
    lengths = [len(example.token_ids) for example in examples]
    batches = batches_by_length(lengths, options.batch_tokens, order)
    steps = max(1, round(len(batches) * options.epochs))
    while len(batches) < steps:
        batches += batches_by_length(lengths, options.batch_tokens, order)
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=options.learning_rate, weight_decay=options.weight_decay
    )
    curve: list[tuple[int, float]] = []
    loss_sum, loss_tokens = 0.0, 0
    model.train()
    with progress_bar("Training", steps) as bar:
        for step in range(steps):
            share = learning_rate_share(step, steps, options.warmup_share, options.schedule)
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * share
            batch = [examples[index] for index in batches[step]]
            tokens = sum(example.loss_tokens for example in batch)
            loss = assistant_loss(model, *pad(batch, pad_id))
            if not bool(torch.isfinite(loss)):
                raise ToolchainError(
                    f"training diverged in step {step + 1}: lower the learning rate"
                )
            (loss / tokens).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, options.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss_sum, loss_tokens = loss_sum + float(loss.detach()), loss_tokens + tokens
            mean = loss_sum / loss_tokens
            bar.advance(1, f"loss {mean:.3f}")
            if (step + 1) % max(1, steps // _CURVE_POINTS) == 0 or step + 1 == steps:
                curve.append((step + 1, round(mean, 4)))
                loss_sum, loss_tokens = 0.0, 0
    return curve, steps


def _measure(
    job: TrainingJob,
    options: TrainingOptions,
    base: BaseModel,
    tokenizer: Any,
    test_data: list[Example],
    test_conversations: list[Conversation],
    directory: Path,
) -> tuple[dict[str, float], dict[str, float]]:
    """Held-out loss and task measure of base and adapter, in fp32 and with the shipped weights."""
    if not test_data:
        return {}, {}
    plain = dataclasses.replace(options, dropout=0.0)
    model = add_lora(load_base(job.model_directory, torch.float32), plain, base.name)
    reload_adapter(model, directory)
    losses: dict[str, float] = {}
    task: dict[str, float] = {}
    with progress_bar("Measuring held-out loss", 2) as bar:
        with model.disable_adapter():
            losses["base"] = round(held_out_loss(model, test_data, tokenizer.pad_token_id), 4)
        bar.advance(1)
        losses["adapter"] = round(held_out_loss(model, test_data, tokenizer.pad_token_id), 4)
        bar.advance(1)
    if job.task is not None:
        name, measure = job.task
        with model.disable_adapter():
            task[f"base_{name}"] = measure(model, tokenizer, test_conversations)
        task[f"adapter_{name}"] = measure(model, tokenizer, test_conversations)
    return losses, task


def _parameters(options: TrainingOptions, base: BaseModel) -> int:
    chosen = base.targets if options.targets == ("all-linear",) else options.targets
    return sum(options.r * sum(base.targets[name]) for name in chosen) * base.num_layers


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions() -> dict[str, str]:
    packages = ("torch", "transformers", "peft", "tokenizers")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages
    }
