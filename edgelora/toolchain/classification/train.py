"""Trains a classifier on labelled texts and publishes it as a plain PEFT directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as replace_fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgelora.adapter_format.head import ScopeRule
from edgelora.toolchain.card_words import check_card_words
from edgelora.toolchain.classification.charts import draw_classifier
from edgelora.toolchain.classification.files import (
    check_labels,
    mean_weights,
    save_classifier,
    save_head,
)
from edgelora.toolchain.classification.fit import Fit, Sample, fit
from edgelora.toolchain.classification.labelled_text import (
    OUT_OF_SCOPE,
    ClassificationData,
    LabelledText,
    read_data,
)
from edgelora.toolchain.classification.model import EncoderClassifier
from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.classification.report import (
    ClassifierReport,
    Measured,
    write_card,
    write_report,
)
from edgelora.toolchain.classification.scope import (
    Accuracy,
    Logits,
    Numbers,
    accuracy,
    judge,
    trade_off,
    tune_rule,
)
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.router_card import write_card_of
from edgelora.toolchain.train import prepared_base
from edgelora.toolchain.training_checkpoint import CheckpointFile
from edgelora.toolchain.training_output import TrainingPlaces, training_output
from services.chassis.base_model import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationJob:
    """What to train on what."""

    name: str
    model_directory: Path
    train_file: Path
    validation_file: Path | None = None
    test_file: Path | None = None
    out_of_scope: str = OUT_OF_SCOPE
    """The label of texts that belong to none."""
    description: str = "Classifies texts."
    licence: str = "unknown"
    """SPDX identifier of the adapter's licence."""
    permissions: tuple[str, ...] = ("commands: none",)
    """What the adapter may be used for, as its author declares it."""
    examples: tuple[str, ...] = ()
    """Texts for its card."""
    quotes_data: bool = False
    """Whether the card quotes training texts when no examples are given."""
    mean_of: tuple[Path, ...] = ()
    """Whole models, trained before, whose mean is taken instead of training; method `full`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedClassifier:
    """A classifier once its training is done."""

    model: EncoderClassifier
    outputs: tuple[str, ...]
    """What each output of the head stands for."""
    num_labels: int
    """Of the outputs; one more stands for none where training had such texts."""
    run: Fit

    @property
    def none_output(self) -> str | None:
        """The name of the output that stands for none."""
        return None if len(self.outputs) == self.num_labels else self.outputs[-1]


class EncodedTexts:
    """Texts as a classifier sees them, and what they truly are."""

    def __init__(
        self,
        texts: Sequence[LabelledText],
        labels: tuple[str, ...],
        tokenizer: Tokenizer,
    ) -> None:
        numbers = {label: number for number, label in enumerate(labels)}
        self.num_labels = len(labels)
        self.truth: Numbers = np.array(
            [len(labels) if one.label is None else numbers[one.label] for one in texts], np.intp
        )
        encodings = tokenizer.encode_batch([one.text for one in texts])
        self.token_ids: list[NDArray[np.int32]] = [np.array(one.ids, np.int32) for one in encodings]

    @property
    def samples(self) -> list[Sample]:
        """For training."""
        return [
            Sample(ids, int(number)) for ids, number in zip(self.token_ids, self.truth, strict=True)
        ]

    def measure(self, logits: Logits, rule: ScopeRule | None) -> Accuracy:
        """How often the classifier that said `logits` is right with this rule."""
        return accuracy(judge(logits, self.num_labels, rule), self.truth, self.num_labels)


def train(
    job: ClassificationJob,
    options: ClassificationOptions,
    output: Path,
    *,
    replace: bool = False,
    resume: bool = False,
) -> ClassifierReport:
    """Trains and publishes `output` at once when everything is done; progress goes to stderr.

    `output` holds adapter_config.json, adapter_model.safetensors (fp16), head.json, README.md,
    report.json, report.md with its pictures and, with examples, card.json. Until then a checkpoint
    lies in `.NAME.training` beside it, from which `resume` goes on. The test texts are looked at
    once, at the end.
    Raises ToolchainError for unusable data or settings, or when `output` or an unfinished run is
    there and neither `replace` nor `resume` says what to do. Ctrl-C leaves the checkpoint alone.
    """
    inputs = (job.train_file, job.validation_file, job.test_file)
    with training_output(output, inputs, replace=replace, resume=resume) as places:
        return _train_into(job, options, places)


def _train_into(
    job: ClassificationJob, options: ClassificationOptions, places: TrainingPlaces
) -> ClassifierReport:
    check_card_words(job.name, job.description, job.licence, job.permissions, job.examples)
    base = prepared_encoder(job.model_directory)
    options.check(base.targets)
    data = read_data(
        job.train_file,
        validation=job.validation_file,
        test=job.test_file,
        out_of_scope=job.out_of_scope,
        seed=options.seed,
    )
    check_labels(output_names(data, job.out_of_scope))
    tokenizer = load_tokenizer(job.model_directory, options.max_tokens)
    checkpoint = CheckpointFile(
        places.checkpoints / "state.pt",
        {
            "base_model": base.digest,
            "training_data": data.train_sha256,
            # Both decide what of it is trained on, and as what.
            "validation_data": f"{job.validation_file is not None} {len(data.train)}",
            "out_of_scope_label": job.out_of_scope,
            # Neither changes what is learnt.
            "settings": json.dumps(asdict(replace_fields(options, threads=None, max_scope_loss=0))),
        },
    )
    if job.mean_of:
        trained = mean_classifier(data, options, job, base)
    else:
        trained = train_classifier(
            data,
            options,
            job.model_directory,
            base.name,
            tokenizer,
            job.out_of_scope,
            checkpoint,
        )
    return write_classifier(trained, data, options, job, base, tokenizer, places.result)


def write_classifier(
    trained: TrainedClassifier,
    data: ClassificationData,
    options: ClassificationOptions,
    job: ClassificationJob,
    base: BaseModel,
    tokenizer: Tokenizer,
    directory: Path,
) -> ClassifierReport:
    """Measures a classifier and writes all its files."""
    weights = save_classifier(trained.model, directory)
    measured = measure(trained, data, tokenizer, options.max_scope_loss)
    save_head(directory, trained.outputs, measured.rule)
    report = ClassifierReport.of(
        job.name,
        base,
        options,
        data,
        trained.model,
        measured,
        weights,
        mean_of=len(job.mean_of),
        licence=job.licence,
        permissions=job.permissions,
        train_sha256=data.train_sha256,
        loss_curve=trained.run.curve,
        wall_seconds=trained.run.seconds,
    )
    report.save(directory)
    texts = [one.text for one in data.train if one.label] if job.quotes_data else []
    examples = write_card_of(directory, job.description, job.examples or texts)
    write_card(report, directory, job.description, examples)
    write_report(report, directory, draw_classifier(report, directory))
    return report


def train_classifier(
    data: ClassificationData,
    options: ClassificationOptions,
    model_directory: Path,
    base_name: str,
    tokenizer: Tokenizer,
    out_of_scope: str = OUT_OF_SCOPE,
    checkpoint: CheckpointFile | None = None,
) -> TrainedClassifier:
    """Trains on the training texts alone."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    outputs = output_names(data, out_of_scope)
    model = EncoderClassifier(model_directory, len(outputs), options, base_name)
    samples = EncodedTexts(data.train, data.labels, tokenizer).samples
    run = fit(model, samples, options, num_labels=len(data.labels), checkpoint=checkpoint)
    return TrainedClassifier(
        model=model,
        outputs=outputs,
        num_labels=len(data.labels),
        run=run,
    )


def mean_classifier(
    data: ClassificationData,
    options: ClassificationOptions,
    job: ClassificationJob,
    base: BaseModel,
) -> TrainedClassifier:
    """The mean of the weights of several runs, which is one model and often better than each.

    Runs that start at the same weights end close enough for that (Wortsman et al., arXiv
    2203.05482).
    """
    outputs = output_names(data, job.out_of_scope)
    model = EncoderClassifier(job.model_directory, len(outputs), options, base.name)
    model.wrapped.load_state_dict(mean_weights(job.mean_of))
    return TrainedClassifier(model=model, outputs=outputs, num_labels=len(data.labels), run=Fit())


def output_names(data: ClassificationData, out_of_scope: str) -> tuple[str, ...]:
    """What the head's outputs stand for: the labels and, where training has such texts, none."""
    has_outside = any(one.label is None for one in data.train)
    return (*data.labels, out_of_scope) if has_outside else data.labels


def measure(
    trained: TrainedClassifier, data: ClassificationData, tokenizer: Tokenizer, max_loss: float
) -> Measured:
    """Reads the out-of-scope rule off the validation texts; then looks at the test texts."""
    validation = EncodedTexts(data.validation, data.labels, tokenizer)
    logits = trained.model.logits(validation.token_ids)
    rule = tune_rule(
        logits,
        validation.truth,
        trained.num_labels,
        label=trained.none_output,
        max_loss=max_loss,
    )
    accuracies = {
        "validation_without_threshold": validation.measure(logits, None),
        "validation": validation.measure(logits, rule),
    }
    points = [] if rule is None else trade_off(logits, validation.truth, trained.num_labels, rule)
    if data.test:
        test = EncodedTexts(data.test, data.labels, tokenizer)
        logits = trained.model.logits(test.token_ids)
        accuracies["test_without_threshold"] = test.measure(logits, None)
        accuracies["test"] = test.measure(logits, rule)
    return Measured(rule, accuracies, points)


def prepared_encoder(directory: Path) -> BaseModel:
    """Describes a prepared encoder with fp32 weights. Raises ToolchainError when it is not one."""
    base = prepared_base(directory)
    if not base.is_encoder:
        raise ToolchainError(
            f"model {directory.name!r} is no encoder: prepare one, or leave --task classify out"
        )
    return base


def load_tokenizer(model_directory: Path, max_tokens: int) -> Tokenizer:
    """The encoder's tokenizer; longer texts are cut to `max_tokens`, none is padded."""
    tokenizer = Tokenizer.from_file(str(model_directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer
