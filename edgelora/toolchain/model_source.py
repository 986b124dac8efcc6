"""What preparation needs from a source, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.llama_layout import LlamaShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer of a prepared directory."""

    document: str
    """Text of `tokenizer.json`."""
    bos_token: str | None
    eos_token: str
    pad_token: str | None
    unk_token: str | None
    chat_template: str | None
    """Jinja source; None when the model was never taught to chat."""


class ModelSource(Protocol):
    """A model on disk, readable tensor by tensor."""

    shape: LlamaShape
    config: dict[str, object]
    """The `config.json` to write."""
    tokenizer: TokenizerFiles

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yields every tensor of `shape.tensors()`, in that order, under its Hugging Face name.

        Raises ToolchainError when one is missing or left over.
        """
        ...
