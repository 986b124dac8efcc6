"""Calibrated mixed-precision rounding of a whole model."""

from __future__ import annotations

import importlib.metadata
import platform
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch
from edgelora_native.matrices import Matrix, Matrix4, Matrix8, SymmetricMatrix
from torch import Tensor

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_blocks import keep_blocks
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.native_form import packed_shape
from edgelora.toolchain.progress import Bar, progress_bar
from edgelora.toolchain.quantisation.allocation import (
    Choice,
    check_budget,
    default_policy,
    divergence,
    policy_kind,
    size,
    within_budget,
)
from edgelora.toolchain.quantisation.calibration_data import (
    CalibrationText,
    cut,
    demo_text,
    read_text,
)
from edgelora.toolchain.quantisation.evaluation import compare
from edgelora.toolchain.quantisation.kinds import INT4_MINIMUM, INT8, KINDS, Kind
from edgelora.toolchain.quantisation.options import QuantisationOptions
from edgelora.toolchain.quantisation.products import SITES, Product, all_products
from edgelora.toolchain.quantisation.report import ProductReport, QuantisationReport
from edgelora.toolchain.quantisation.rounded_model import round_model
from edgelora.toolchain.quantisation.rounding import Rounded
from edgelora.toolchain.quantisation.self_written import write_texts
from edgelora.toolchain.quantisation.sensitivity import Sensitivity, measure
from edgelora.toolchain.quantisation.workers import Workers

Progress = Callable[[str, int], AbstractContextManager[Bar]]
"""Makes a bar from a title and a number of units."""
_PACKAGES = ("edgelora", "edgelora-native", "numpy", "torch", "tokenizers")


@dataclass(frozen=True, slots=True)
class QuantisedModel:
    """Every matrix as it is packed, by Hugging Face name, and how that came about."""

    matrices: Mapping[str, Matrix]
    report: QuantisationReport


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of tokens, int64 [windows, tokens]."""

    calibration: Tensor
    held_out: Tensor
    texts: list[dict[str, object]]
    """Where they come from, for the report."""


def quantise(
    source: ModelSource, options: QuantisationOptions, progress: Progress = progress_bar
) -> QuantisedModel:
    """Rounds `source` as `options` say; the same for the same seed, versions and kind of processor.

    One layer's fp32 weights are in memory at a time, besides the rounded matrices. Raises
    ToolchainError for options that can not work, and for a model the native core can not serve.
    """
    options.check()
    packed_shape(source.shape)
    begin = time.monotonic()
    products = all_products(source.shape)
    kept = {one.name: kind for one in products if (kind := _stored_kind(source, one)) is not None}
    budget = None
    if options.size_budget is not None:
        budget = options.size_budget.bytes_of(sum(one.num_weights for one in products))
    _check(products, kept, options, budget)
    windows = calibration_windows(source, options, progress)
    with _in_range(), Workers() as workers:
        sensitivity = Sensitivity()
        if not _stays_as_it_is(products, kept, budget):
            sample = windows.calibration[: options.sensitivity_inputs, : options.sensitivity_tokens]
            with progress("Measuring sensitivity", source.shape.num_layers + 1) as bar:
                sensitivity = measure(source, sample, windows.calibration, workers, bar)
        choices = [_choice(one, sensitivity, kept, options.left_out) for one in products]
        kinds = default_policy(choices) if budget is None else within_budget(choices, budget)
        to_round = {
            one.name: kinds[one.name] for one in products if kept.get(one.name) != kinds[one.name]
        }
        rounded: dict[str, Rounded] = {}
        if to_round:
            with progress("Rounding", source.shape.num_layers + 1) as bar:
                rounded = round_model(source, windows.calibration, to_round, workers, bar)
        with progress("Comparing", source.shape.num_layers + 1) as bar:
            comparison = compare(source, rounded, windows.held_out, workers, bar)
    matrices = {
        name: native_matrix(rounded[name]) if name in rounded else _kept(source, name)
        for one in products
        for name in one.tensors
    }
    report = QuantisationReport(
        model_digest=source.digest,
        calibration=windows.texts,
        settings=_settings(options, windows),
        versions={"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _PACKAGES},
        seconds=round(time.monotonic() - begin, 1),
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        num_weights=sum(one.num_weights for one in products),
        num_bytes=size(choices, kinds),
        size_budget_bytes=budget,
        predicted_divergence=divergence(choices, kinds),
        sensitivity=sensitivity.divergence,
        sensitivity_tokens=options.sensitivity_inputs * options.sensitivity_tokens,
        products=[
            ProductReport(
                name=one.name,
                num_weights=one.num_weights,
                kind=kinds[one.name].name,
                bits_per_weight=kinds[one.name].bits_per_weight,
                divergence_at_4_bits=sum(
                    sensitivity.divergence.get(name, 0.0) for name in one.tensors
                ),
                is_exact=one.name not in to_round,
            )
            for one in products
        ],
        held_out=comparison,
    )
    return QuantisedModel(matrices, report)


def _check(
    products: Sequence[Product],
    kept: Mapping[str, Kind],
    options: QuantisationOptions,
    budget: int | None,
) -> None:
    """Raises ToolchainError for what can be told before anything is measured."""
    modules = {one.site for one in products if one.site not in SITES}
    modules |= {name for site in SITES.values() for name in site}
    for name in options.left_out:
        if name not in modules:
            raise ToolchainError(
                f"module {name!r} does not exist in this model: leave out one of "
                f"{', '.join(sorted(modules))}"
            )
    if budget is not None:
        unmeasured = Sensitivity()
        check_budget([_choice(one, unmeasured, kept, options.left_out) for one in products], budget)


@contextmanager
def _in_range() -> Iterator[None]:
    """Turns what weights far beyond any trained model's bring about into a ToolchainError."""
    try:
        yield
    except (ArithmeticError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        raise ToolchainError(
            "the model's numbers leave their range on the calibration texts: the source is "
            "damaged, or use --quant plain"
        ) from error


def native_matrix(rounded: Rounded) -> Matrix:
    """A rounded matrix in the words of the native core."""
    scale = rounded.scale.half().numpy()
    if not np.isfinite(scale).all():
        raise ToolchainError("a matrix holds values beyond half precision: not supported")
    values = rounded.values.numpy()
    if rounded.minimum is not None:
        return Matrix4(scale, rounded.minimum.half().numpy(), values.astype("uint8"))
    if rounded.kind.bits == 8:
        return Matrix8(scale, values)
    return SymmetricMatrix(rounded.kind.bits, scale, values)


def _kept(source: ModelSource, name: str) -> Matrix:
    matrix = keep_blocks(source.tensors[name])
    assert matrix is not None
    return matrix


def _stored_kind(source: ModelSource, product: Product) -> Kind | None:
    """The kind in which a product can stay exactly as the source has it."""
    found = {type(keep_blocks(source.tensors[name])) for name in product.tensors}
    if len(found) > 1:
        return None
    return {Matrix4: INT4_MINIMUM, Matrix8: INT8}.get(found.pop())


def _stays_as_it_is(products: list[Product], kept: Mapping[str, Kind], budget: int | None) -> bool:
    if any(one.name not in kept for one in products):
        return False
    return budget is None or budget >= sum(
        kept[one.name].num_bytes(one.num_weights) for one in products
    )


def _choice(
    product: Product,
    sensitivity: Sensitivity,
    kept: Mapping[str, Kind],
    left_out: tuple[str, ...],
) -> Choice:
    """What each kind of a product costs; those that are no better than a smaller one are none."""
    stored = kept.get(product.name)
    if product.site in left_out or any(name.split(".")[-2] in left_out for name in product.tensors):
        return Choice(product.name, product.num_weights, {stored or INT8: 0.0}, stored or INT8)
    costs = {
        kind: sum(
            sensitivity.divergence[name]
            * sensitivity.ratios[name][kind]
            * sensitivity.remaining[name]
            for name in product.tensors
            if name in sensitivity.divergence
        )
        for kind in KINDS
    }
    if stored is None:
        return Choice(product.name, product.num_weights, costs, policy_kind(product.site))
    narrower = {
        kind: cost for kind, cost in costs.items() if kind.bits_per_weight < stored.bits_per_weight
    }
    return Choice(product.name, product.num_weights, {**narrower, stored: 0.0}, stored)


def calibration_windows(
    source: ModelSource, options: QuantisationOptions, progress: Progress
) -> Windows:
    """Draws the windows to calibrate with, and others for the figures. Raises ToolchainError."""
    generator = torch.Generator().manual_seed(options.seed)
    wanted = options.inputs + options.held_out_inputs
    tokens = min(options.input_tokens, source.shape.max_context_tokens)
    if options.calibration is not None:
        texts = [read_text(options.calibration, source)]
        counts = [wanted]
    else:
        own = -(-wanted // 2)
        with progress("Writing calibration texts", own * (tokens - 1)) as bar:
            written = write_texts(
                source, own, tokens, seed=options.seed, threads=torch.get_num_threads(), bar=bar
            )
        texts, counts = [demo_text(source, options.seed), written], [wanted - own, own]
    pieces: list[Tensor] = []
    told: list[dict[str, object]] = []
    for text, count in zip(texts, counts, strict=True):
        windows = cut(text, count, tokens, generator)
        pieces.append(windows)
        told.append(_told(text, windows))
    together = torch.cat(pieces)
    together = together[torch.randperm(len(together), generator=generator)]
    if len(together) < 2:
        raise ToolchainError(
            f"{texts[0].name} has {len(texts[0].token_ids)} tokens, at least {2 * tokens} are "
            "needed: give more text"
        )
    held_out = min(options.held_out_inputs, len(together) // 2)
    return Windows(together[held_out:], together[:held_out], told)


def _told(text: CalibrationText, windows: Tensor) -> dict[str, object]:
    return {
        "name": text.name,
        "sha256": text.sha256,
        "windows": len(windows),
        "tokens": windows.shape[1],
    }


def _settings(options: QuantisationOptions, windows: Windows) -> dict[str, object]:
    settings = asdict(options)
    settings["calibration"] = None if options.calibration is None else options.calibration.name
    settings["calibration_windows"] = len(windows.calibration)
    settings["held_out_windows"] = len(windows.held_out)
    settings["threads"] = torch.get_num_threads()
    return settings
