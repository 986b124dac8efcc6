"""What preparation needs from a source, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.bert_shape import BertShape
from edgelora.toolchain.decoder_shape import DecoderShape
from edgelora.toolchain.errors import ToolchainError

ALL_ROWS = slice(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer of a prepared directory."""

    document: str
    """Text of `tokenizer.json`."""
    bos_token: str | None
    eos_token: str | None
    """None for an encoder."""
    pad_token: str | None
    unk_token: str | None
    chat_template: str | None
    """Jinja source; None when the model was never taught to chat."""
    cls_token: str | None = None
    sep_token: str | None = None
    mask_token: str | None = None


class SourceTensor(Protocol):
    """One tensor of a mapped file; nothing is read before it is asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, [out_features, in_features] for a matrix."""
        ...

    def float32(self, rows: slice = ALL_ROWS) -> NDArray[np.float32]:
        """The values as fp32, or those of some rows. Raises ToolchainError for a damaged one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A model on disk, readable tensor by tensor."""

    digest: str
    """`sha256:` and 64 hex digits: the identity of what is prepared from it."""
    shape: DecoderShape
    config: dict[str, object]
    """The `config.json` to write."""
    tokenizer: TokenizerFiles
    tensors: Mapping[str, SourceTensor]
    """Every tensor of `shape.tensors()`, in that order, under its Hugging Face name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSource:
    """An encoder on disk, readable tensor by tensor."""

    digest: str
    """`sha256:` and 64 hex digits: the identity of what is prepared from it."""
    shape: BertShape
    config: dict[str, object]
    """The `config.json` to write."""
    tokenizer: TokenizerFiles
    pooling: str
    """`mean` or `cls`."""
    tensors: Mapping[str, SourceTensor]
    """Every tensor of `shape.tensors()`, in that order, under its Hugging Face name."""


class Shape(Protocol):
    """What a model consists of."""

    @property
    def family(self) -> str:
        """Its `BaseModel.family`."""
        ...

    @property
    def num_layers(self) -> int:
        """Its layers."""
        ...

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Every tensor in file order: Hugging Face name -> shape."""
        ...


def match_tensors(shape: Shape, stored: Mapping[str, SourceTensor]) -> dict[str, SourceTensor]:
    """Returns the tensors of a model in file order. `stored`: by Hugging Face name.

    Raises ToolchainError when one is missing, left over or of another shape.
    """
    if shape.num_layers > len(stored):  # also spares us the names of a billion layers
        raise ToolchainError(
            f"the model says it has {shape.num_layers} layers and holds {len(stored)} tensors: "
            "copy it again"
        )
    wanted = shape.tensors()
    if unknown := sorted(stored.keys() - wanted.keys()):
        raise ToolchainError(
            f"the model holds {len(unknown)} tensors this release does not know, "
            f"for example {unknown[0]!r}: it is no plain {shape.family} model"
        )
    for name, size in wanted.items():
        if name not in stored:
            raise ToolchainError(f"the model lacks tensor {name!r}: copy it again")
        if stored[name].shape != size:
            raise ToolchainError(
                f"tensor {name!r} has shape {list(stored[name].shape)}, its configuration says "
                f"{list(size)}: copy the model again"
            )
    return {name: stored[name] for name in wanted}


def check_finite(name: str, values: NDArray[np.floating]) -> None:
    """Raises ToolchainError when a value of tensor `name` is NaN or infinite."""
    if not np.isfinite(values).all():
        raise ToolchainError(f"tensor {name} holds NaN or infinity: the source is damaged")
