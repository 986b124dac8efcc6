"""One tensor of a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import ALL_ROWS


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A mapped tensor with its rows in Hugging Face's order."""

    name: str
    kind: str
    """Its quantisation, for example `Q4_1`."""
    shape: tuple[int, ...]
    data: NDArray[Any]
    """As stored: numbers, or for a quantisation bytes, [rows, bytes of a row]."""
    order: NDArray[np.intp] | None
    """Rows to take, in turn; None when they are in order."""

    def stored(self, rows: slice = ALL_ROWS) -> NDArray[Any]:
        """The rows as stored."""
        return self.data[rows] if self.order is None else self.data[self.order[rows]]

    def float32(self, rows: slice = ALL_ROWS) -> NDArray[np.float32]:
        """See SourceTensor."""
        try:
            values = gguf.quants.dequantize(self.stored(rows), gguf.GGMLQuantizationType[self.kind])
        except NotImplementedError as error:
            raise ToolchainError(
                f"tensor {self.name!r} has quantisation {self.kind}, which cannot be read: "
                "use another GGUF of this model, for example Q8_0"
            ) from error
        return np.asarray(values, dtype=np.float32)


def undo_rotary_order(rows: int, heads: int) -> NDArray[np.intp]:
    """The row order that turns rotary pairs side by side (GGUF's llama) into halves of a head."""
    return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
