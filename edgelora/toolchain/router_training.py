"""Trains a router for a set of adapters: measures losses, fits the network, writes the file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgelora.routing import Router
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.published_directory import published_file
from edgelora.toolchain.router_choices import choose_all, prototypes_of
from edgelora.toolchain.router_draws import RoutedTexts
from edgelora.toolchain.router_fit import FitOptions, fit_router
from edgelora.toolchain.router_losses import choose_measured, measure_losses, measuring_precision
from edgelora.toolchain.router_sources import Source
from edgelora.toolchain.router_targets import Matrix, fill_unmeasured
from edgelora.toolchain.train import prepared_base

REPORT_FILE = "report.json"
_RECIPE = "1"
"""Part of what a router depends on: another number makes `is_current` false."""
_NEVER = 1e6
"""Loss, in nats, of a text outside every domain under any adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterJob:
    """What to train a router on."""

    sources: Sequence[Source]
    out_of_scope: Sequence[str]
    """Texts for the base, which no adapter is for."""
    model_directory: Path
    losses_directory: Path
    """Where measured losses are kept."""
    samples: int = 100
    """Most texts of each domain that are measured; the others count like their mean."""
    threads: int | None = None
    """Processor threads; None lets torch choose."""
    options: FitOptions = field(default_factory=FitOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """One adapter and its texts; losses are means over its measured texts, in nats a token."""

    name: str
    digest: str
    texts: int
    measured: int
    base_loss: float
    adapter_loss: float
    others_loss: float
    """Of the best adapter but this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterReport:
    """What a router was trained on, and how."""

    inputs_sha256: str
    file_sha256: str
    file_bytes: int
    base_model: str
    device: str
    precision: str
    """In which the frozen base and adapters were measured."""
    domains: list[DomainFacts]
    out_of_scope_texts: int
    losses_measured: int
    """Of the losses this run measured anew."""
    measure_seconds: float
    fit_seconds: float
    fit_loss: float
    """Kullback-Leibler divergence from the targets in the last tenth of the steps, nats."""
    options: dict[str, Any]
    unseen_accuracy: dict[str, float] | None
    """For each adapter, the share of its texts that a router trained without it sent to it."""


def is_current(job: RouterJob, output: Path) -> bool:
    """Whether `output` was trained on just this, by the report beside it."""
    try:
        report = json.loads((output.parent / REPORT_FILE).read_text(encoding="utf-8"))
        file_sha256 = hashlib.sha256(output.read_bytes()).hexdigest()
    except (FileNotFoundError, ValueError):
        return False
    wanted = {"inputs_sha256": _inputs_sha256(job), "file_sha256": file_sha256}
    return isinstance(report, dict) and wanted.items() <= report.items()


def train_router(job: RouterJob, output: Path, *, with_unseen: bool = False) -> RouterReport:
    """Trains and writes `output`, then report.json beside it, each at once when complete.

    `with_unseen` also trains a router without each adapter, to see how it does by its card alone.
    Raises ToolchainError for unusable settings or adapters; Ctrl-C leaves the old file.
    """
    job.options.check()
    if job.samples < 1:
        raise ToolchainError(f"samples is {job.samples}: it must be at least 1")
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    started = time.monotonic()
    chosen = [choose_measured(source.conversations, job.samples) for source in job.sources]
    measured, count = measure_losses(
        [
            source.conversations[index]
            for source, indices in zip(job.sources, chosen, strict=True)
            for index in indices
        ],
        job.sources,
        job.model_directory,
        job.losses_directory,
    )
    measured_at = time.monotonic()
    per_domain = np.split(measured, np.cumsum([len(indices) for indices in chosen])[:-1])
    data = _routed_texts(job, chosen, per_domain)
    file, fit_loss = fit_router(data, job.options)
    fitted_at = time.monotonic()
    unseen = _unseen_accuracy(job, data) if with_unseen else None
    encoded = file.encoded()
    device, dtype = measuring_precision()
    report = RouterReport(
        inputs_sha256=_inputs_sha256(job),
        file_sha256=hashlib.sha256(encoded).hexdigest(),
        file_bytes=len(encoded),
        base_model=prepared_base(job.model_directory).name,
        device=device.type,
        precision=str(dtype).removeprefix("torch."),
        domains=[
            _domain_facts(source, number, losses)
            for number, (source, losses) in enumerate(zip(job.sources, per_domain, strict=True))
        ],
        out_of_scope_texts=len(job.out_of_scope),
        losses_measured=count,
        measure_seconds=round(measured_at - started, 1),
        fit_seconds=round(fitted_at - measured_at, 1),
        fit_loss=round(fit_loss, 4),
        options={"samples": job.samples, **asdict(job.options)},
        unseen_accuracy=unseen,
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    with published_file(output) as path:
        path.write_bytes(encoded)
    with published_file(output.parent / REPORT_FILE) as path:
        path.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return report


def _routed_texts(
    job: RouterJob, chosen: Sequence[Sequence[int]], per_domain: Sequence[Matrix]
) -> RoutedTexts:
    texts = [text for source in job.sources for text in source.texts]
    columns = 1 + len(job.sources)
    blocks: list[Matrix] = []
    for source, indices, losses in zip(job.sources, chosen, per_domain, strict=True):
        block = np.full((len(source.conversations), columns), np.nan, np.float32)
        block[list(indices)] = losses
        blocks.append(block)
    outside = np.full((len(job.out_of_scope), columns), _NEVER, np.float32)
    outside[:, 0] = 0
    sizes = [len(block) for block in (*blocks, outside)]
    domains = np.repeat(np.arange(len(sizes)), sizes)
    return RoutedTexts(
        texts=[*texts, *job.out_of_scope],
        domains=domains,
        losses=fill_unmeasured(np.concatenate([*blocks, outside]), domains),
        cards=[_card_texts(source) for source in job.sources],
    )


def _card_texts(source: Source) -> list[str]:
    return [text for text in (source.card.description, *source.card.examples) if text.strip()]


def _unseen_accuracy(job: RouterJob, data: RoutedTexts) -> dict[str, float]:
    """Trains without each adapter and its texts, then routes these among all adapters."""
    accuracy: dict[str, float] = {}
    for number, source in enumerate(job.sources):
        kept = np.flatnonzero(data.domains != number)
        domains = data.domains[kept]
        without = RoutedTexts(
            texts=[data.texts[int(index)] for index in kept],
            domains=np.where(domains > number, domains - 1, domains),
            losses=np.delete(data.losses[kept], 1 + number, axis=1),
            cards=[card for other, card in enumerate(data.cards) if other != number],
        )
        router = Router(fit_router(without, job.options)[0])
        card = set(data.cards[number])
        texts = [text for text in source.texts if text not in card]
        choices = choose_all(router, prototypes_of(router, job.sources), texts)
        accuracy[source.name] = round(float(np.mean(choices == number)), 4) if texts else 0.0
    return accuracy


def _domain_facts(source: Source, number: int, losses: Matrix) -> DomainFacts:
    means = losses.mean(0)
    return DomainFacts(
        name=source.name,
        digest=source.digest,
        texts=len(source.conversations),
        measured=len(losses),
        base_loss=round(float(means[0]), 4),
        adapter_loss=round(float(means[1 + number]), 4),
        others_loss=round(float(np.delete(means[1:], number).min()), 4),
    )


def _inputs_sha256(job: RouterJob) -> str:
    """Of everything the router depends on."""
    document = {
        "recipe": _RECIPE,
        "base": prepared_base(job.model_directory).digest,
        "precision": [str(one) for one in measuring_precision()],
        "sources": [
            [source.name, source.digest, asdict(source.card), source.conversations]
            for source in job.sources
        ],
        "out_of_scope": list(job.out_of_scope),
        "samples": job.samples,
        "options": asdict(job.options),
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
