"""The forms in which a prepared model keeps its weights: packed, and fp32."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import EncoderSource, ModelSource
from edgelora.toolchain.progress import Bar, progress_bar
from edgelora.toolchain.published_directory import published_file
from edgelora.toolchain.rounding import Rounding
from services.chassis.base_model import FORMS, file_digest
from services.chassis.native_core import native_core_obstacle

WEIGHTS = (*FORMS, "both")
"""Choices of the weights to write."""


def chosen_forms(weights: str | None) -> list[str]:
    """Returns the forms that a choice means: None is native where the native core can be used.

    Raises ToolchainError for an unknown choice, and for native weights where there is no core.
    """
    obstacle = native_core_obstacle()
    if weights is None:
        weights = "native" if obstacle is None else "float32"
    if weights not in WEIGHTS:
        raise ToolchainError(f"weights must be one of {', '.join(WEIGHTS)}")
    forms = list(FORMS) if weights == "both" else [weights]
    if "native" in forms and obstacle is not None:
        raise ToolchainError(f"no native weights: {obstacle}; or use --weights float32")
    return forms


def check_space(
    model: ModelSource | EncoderSource, directory: Path, forms: Sequence[str], rounding: Rounding
) -> None:
    """Raises ToolchainError when the disk of `directory` may be too full for the weights."""
    bytes_per_weight = {"native": rounding.bytes_per_weight, "float32": 4.0}
    size = _num_values(model) * sum(bytes_per_weight[form] for form in forms)
    free = shutil.disk_usage(directory).free
    if free < size:
        raise ToolchainError(
            f"the prepared model needs up to {size / 1e6:.0f} MB, {free / 1e6:.0f} MB are free: "
            "make room"
        )


def write_form(
    model: ModelSource | EncoderSource, form: str, directory: Path, rounding: Rounding
) -> str:
    """Writes a weights file into `directory`, at once or not at all, and returns its digest.

    `rounding` is that of native weights.
    """
    if form == "native" and not isinstance(model, EncoderSource):
        rounding.begin(model)
    with (
        published_file(directory / FORMS[form]) as path,
        progress_bar(f"Writing {FORMS[form]}", _num_values(model)) as bar,
    ):
        if form == "native":
            _write_native(path, model, rounding, bar)
        else:
            from edgelora.toolchain.tensor_files import write_float32

            tensors = ((name, tensor.float32()) for name, tensor in model.tensors.items())
            write_float32(path, model.shape.tensors(), tensors, bar)
        return file_digest(path)


def _write_native(
    path: Path, model: ModelSource | EncoderSource, rounding: Rounding, bar: Bar
) -> None:
    # The native core is not installed everywhere.
    from edgelora.toolchain.encoder_form import write_native_encoder
    from edgelora.toolchain.native_form import write_native

    if isinstance(model, EncoderSource):
        write_native_encoder(path, model, bar)
    else:
        write_native(path, model, rounding, bar)


def _num_values(model: ModelSource | EncoderSource) -> int:
    return sum(math.prod(shape) for shape in model.shape.tensors().values())
