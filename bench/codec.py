"""`codec`: what an adapter loses and saves when it is kept in few bits.

The four demo adapters, trained at ranks 16, 32 and 64 by `make demo-ranks`, on conversations they
were not trained on; every token is foretold from the right ones before it. Accuracy is the share of
the assistant's tokens that were the likeliest, an answer is exact when all of it were. Before is
the original in a slot of the native back end, which rounds it to 8 bits. Beside it: round to
nearest with a scale and a minimum for 64 values, and NF4. Not measured here but as published:
LoRAQuant (arXiv 2510.26690) keeps adapters of Llama 2 7B, 13B and Mistral 7B in below 2 bits on
average, for example 1.65 for GSM8K and 1.55 for HumanEval, at accuracies comparable to 16 bits; it
refines the factors by gradient descent. Errors are of all products B A together, relative, in the
Frobenius norm.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.held_out import Beside, compare, read_held_out
from bench.plain_quantisers import QUANTISERS, num_parameters
from bench.report import RAW
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.adapter_format import AdapterWeights, read_adapter
from edgelora.adapter_format.codec import LEVELS, decode, encode
from edgelora.toolchain.chat_data import Example
from services.adapter_store.verification.delta_norms import relative_error
from services.adapter_store.verification.measured_model import MeasuredModel
from services.chassis.base_model import NATIVE_FILE, BaseModel
from services.chassis.native_core import native_core_obstacle

DEMO = Path("demo")
NAMES = ("email", "recipes", "tutor", "home")
RANKS = (16, 32, 64)
_MAX_RANK = 64
_TOKENS, _QUICK_TOKENS = 600, 60
_REPEATS, _QUICK_REPEATS = 5, 2
_TASK = "home"
"""The adapter whose whole answers count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    name: str
    directory: Path
    weights: AdapterWeights
    held_out: list[Example]

    @property
    def label(self) -> str:
        return f"{self.name}, rank {self.weights.max_rank}"

    @property
    def file_bytes(self) -> int:
        return (self.directory / "adapter_model.safetensors").stat().st_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    method: str
    bits: float
    error: float
    beside: Beside

    @property
    def accuracy_loss(self) -> float:
        """Relative; below 0 when it got better."""
        return 1 - self.beside.other.accuracy / self.beside.original.accuracy


def run(options: BenchOptions) -> BenchResult:
    """Measures every adapter in every form, then how long encoding and decoding take."""
    if (obstacle := native_core_obstacle()) is not None:
        raise BenchError(obstacle)
    base = BaseModel.load(options.model_directory)
    model = MeasuredModel(
        options.model_directory / NATIVE_FILE, vocab_size=base.vocab_size, max_rank=_MAX_RANK
    )
    cases = _cases(options, base)
    forms: dict[str, list[_Form]] = {}
    speeds = []
    for case in cases:
        options.progress(f"codec: {case.label}")
        forms[case.label] = list(_forms(case, model, base))
        speeds.append(_speed(case, model, base, _QUICK_REPEATS if options.quick else _REPEATS))
    least = {label: found[0] for label, found in forms.items()}
    return BenchResult(
        results={
            "parameters": sum(num_parameters(case.weights) for case in cases),
            "held_out_tokens": sum(e.loss_tokens for case in cases for e in case.held_out),
            "adapters": [_adapter_row(label, form) for label, form in least.items()],
            "whole_answers": [
                _answer_row(case.label, forms[case.label]) for case in cases if case.name == _TASK
            ],
            "methods": [_method_row(rows) for rows in zip(*forms.values(), strict=True)],
            "loading": speeds,
            RAW: {label: [_run_row(form) for form in found] for label, found in forms.items()},
        },
        targets=[
            Target.at_most("bits_per_parameter", 3.2, max(f.bits for f in least.values())),
            Target.at_most(
                "worst_relative_accuracy_loss_at_3.2_bits",
                0.01,
                round(max(form.accuracy_loss for form in least.values()), 4),
            ),
            Target.at_least("least_flash_saving", 4.8, min(row["saving"] for row in speeds)),
        ],
    )


def _cases(options: BenchOptions, base: BaseModel) -> list[_Case]:
    """The adapters: of all ranks, or in a quick run one that is shipped."""
    if options.quick:
        wanted = [(_TASK, DEMO / _TASK)]
    else:
        ranks = options.model_directory.parent.parent / "ranks"
        wanted = [(name, ranks / f"{name}-r{rank}") for rank in RANKS for name in NAMES]
    cases = []
    tokens = _QUICK_TOKENS if options.quick else _TOKENS
    for name, directory in wanted:
        try:
            _, weights = read_adapter(
                (directory / "adapter_config.json").read_bytes(),
                (directory / "adapter_model.safetensors").read_bytes(),
                targets=base.targets,
                num_layers=base.num_layers,
                max_rank=_MAX_RANK,
            )
        except FileNotFoundError as error:
            raise BenchError(f"{directory.name} is missing: run `make demo-ranks`") from error
        held_out = read_held_out(DEMO / name / "data/test.jsonl", options.model_directory, tokens)
        cases.append(_Case(name=name, directory=directory, weights=weights, held_out=held_out))
    return cases


def _encoded(case: _Case, base: BaseModel, level: float) -> bytes:
    # What it is called has no bearing on the figures.
    return encode(case.weights, digest=base.digest, base_digest=base.digest, level=level)


def _forms(case: _Case, model: MeasuredModel, base: BaseModel) -> Iterator[_Form]:
    """The least bits first."""
    for level in LEVELS:
        data = _encoded(case, base, level)
        bits = 8 * len(data) / num_parameters(case.weights)
        yield _form(f"{level:g} bits", case, model, decode(data), bits)
    for method, quantise in QUANTISERS.items():
        yield _form(method, case, model, *quantise(case.weights))


def _form(
    method: str, case: _Case, model: MeasuredModel, other: AdapterWeights, bits: float
) -> _Form:
    return _Form(
        method=method,
        bits=round(bits, 4),
        error=relative_error(case.weights, other),
        beside=compare(model, case.held_out, case.weights, other),
    )


def _speed(case: _Case, model: MeasuredModel, base: BaseModel, repeats: int) -> dict[str, Any]:
    """Bytes read and time taken before and after; all on one thread."""
    parameters = num_parameters(case.weights)
    encode_s, decode_s, load_s = [], [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        data = _encoded(case, base, LEVELS[0])
        encode_s.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        model.load_encoded(0, data)
        decode_s.append(time.perf_counter() - begin)
        model.unload(0)
        begin = time.perf_counter()
        model.load(0, case.weights)
        load_s.append(time.perf_counter() - begin)
        model.unload(0)
    decode_median = statistics.median(decode_s)
    return {
        "adapter": case.label,
        "bytes_before": case.file_bytes,
        "bytes_after": len(data),
        "saving": round(case.file_bytes / len(data), 3),
        "encode_s": round(statistics.median(encode_s), 3),
        "decode_ms": round(1000 * decode_median, 2),
        "decode_million_values_a_second": round(parameters / decode_median / 1e6, 1),
        "from_float_ms": round(1000 * statistics.median(load_s), 2),
    }


def _adapter_row(label: str, form: _Form) -> dict[str, Any]:
    return {
        "adapter": label,
        "bits": form.bits,
        "error": round(form.error, 4),
        "accuracy_before": round(form.beside.original.accuracy, 4),
        "accuracy_after": round(form.beside.other.accuracy, 4),
        "accuracy_loss": round(form.accuracy_loss, 4),
        "mean_kl": round(form.beside.mean_kl, 5),
    }


def _answer_row(label: str, forms: list[_Form]) -> dict[str, Any]:
    row = {"adapter": label, "before": round(forms[0].beside.original.exact, 4)}
    return row | {form.method: round(form.beside.other.exact, 4) for form in forms[: len(LEVELS)]}


def _method_row(forms: tuple[_Form, ...]) -> dict[str, Any]:
    """Means over the adapters."""
    return {
        "method": forms[0].method,
        "bits": round(statistics.mean(form.bits for form in forms), 3),
        "error": round(statistics.mean(form.error for form in forms), 4),
        "mean_kl": round(statistics.mean(form.beside.mean_kl for form in forms), 5),
        "agreement": round(statistics.mean(form.beside.agreement for form in forms), 4),
        "accuracy_loss": round(statistics.mean(form.accuracy_loss for form in forms), 4),
        "worst_accuracy_loss": round(max(form.accuracy_loss for form in forms), 4),
    }


def _run_row(form: _Form) -> dict[str, Any]:
    return {
        "method": form.method,
        "bits": form.bits,
        "error": round(form.error, 5),
        "loss_before": round(form.beside.original.loss, 5),
        "loss_after": round(form.beside.other.loss, 5),
        "accuracy_before": round(form.beside.original.accuracy, 5),
        "accuracy_after": round(form.beside.other.accuracy, 5),
        "exact_after": round(form.beside.other.exact, 5),
        "mean_kl": round(form.beside.mean_kl, 6),
        "agreement": round(form.beside.agreement, 5),
    }
