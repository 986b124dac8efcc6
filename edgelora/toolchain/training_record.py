"""Puts together the record of a training run."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path

from edgelora.toolchain.lora_model import CONFIG_FILE
from edgelora.toolchain.training_job import TrainingJob
from edgelora.toolchain.training_options import TrainingOptions
from edgelora.toolchain.training_quality import Quality
from edgelora.toolchain.training_report import (
    AdapterFacts,
    DataFacts,
    RunFacts,
    TrainingReport,
)
from edgelora.toolchain.training_versions import Setup, Trained

_PACKAGES = ("edgelora", "torch", "transformers", "peft", "tokenizers", "numpy")


def record_of(
    job: TrainingJob,
    options: TrainingOptions,
    setup: Setup,
    trained: Trained,
    quality: Quality,
    base_tokens: int | None,
    share: float | None,
) -> TrainingReport:
    """Everything that was asked for, done and measured."""
    own = quality.versions[0]
    base_task = {f"base_{name}": value for name, value in quality.base_task.items()}
    return TrainingReport(
        adapter=_adapter(job, options, setup, trained.versions[0].directory, quality),
        data=_data(setup, base_tokens, share),
        run=_run(options, setup, trained),
        held_out_loss=(
            {}
            if quality.base_loss is None or own.held_out_loss is None
            else {"base": quality.base_loss, "adapter": own.held_out_loss}
        ),
        task=base_task | {f"adapter_{name}": value for name, value in own.task.items()},
        versions={"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _PACKAGES},
        ranks=quality.versions,
        energy=trained.energy,
    )


def _adapter(
    job: TrainingJob, options: TrainingOptions, setup: Setup, directory: Path, quality: Quality
) -> AdapterFacts:
    own = quality.versions[0]
    config = json.loads((directory / CONFIG_FILE).read_bytes())
    return AdapterFacts(
        name=job.name,
        base_model=setup.base.name,
        base_digest=setup.base.digest,
        r=own.rank,
        alpha=config["lora_alpha"],
        targets=list(options.targets),
        dropout=options.dropout,
        use_rslora=options.use_rslora,
        parameters=own.parameters,
        weights_bytes=own.weights_bytes,
        weights_sha256=own.weights_sha256,
        licence=job.licence,
        permissions=list(job.permissions),
    )


def _data(setup: Setup, base_tokens: int | None, share: float | None) -> DataFacts:
    data = setup.data
    return DataFacts(
        train_examples=len(data.train),
        train_tokens=data.train_tokens,
        train_loss_tokens=sum(example.loss_tokens for example in data.train),
        train_sha256=data.train_sha256,
        test_examples=len(data.test),
        test_loss_tokens=sum(example.loss_tokens for example in data.test),
        test_sha256=data.test_sha256,
        base_training_tokens=base_tokens,
        data_share=share,
        held_out_share=data.held_out_share,
    )


def _run(options: TrainingOptions, setup: Setup, trained: Trained) -> RunFacts:
    first, hardware = trained.fits[0], setup.hardware
    seconds = sum(one.seconds for one in trained.fits)
    on_two_cores = seconds * hardware.threads / 2 if hardware.device.type == "cpu" else None
    return RunFacts(
        epochs=options.epochs,
        steps=first.step,
        learning_rate=options.learning_rate,
        schedule=options.schedule,
        warmup_share=options.warmup_share,
        weight_decay=options.weight_decay,
        max_grad_norm=options.max_grad_norm,
        batch_tokens=options.batch_tokens,
        seed=options.seed,
        precision=str(hardware.dtype).removeprefix("torch."),
        threads=hardware.threads,
        wall_seconds=round(seconds, 1),
        loss_curve=first.curve,
        held_out_curve=first.held_out_curve,
        device=hardware.described(),
        two_core_seconds=None if on_two_cores is None else round(on_two_cores, 1),
        gradient_checkpointing=options.gradient_checkpointing,
        early_stop=options.early_stop,
        stopped_early=first.stopped_early,
        best_step=first.best_step,
        resumed_at=first.resumed_at,
    )
