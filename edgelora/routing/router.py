"""A trained router: which of a tenant's adapters suits a text, or the base model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgelora.routing.network import (
    Array,
    DeviceState,
    Prototype,
    PrototypeTable,
    TextVector,
    base_score,
    candidate_scores,
    text_vector,
)
from edgelora.routing.router_file import RouterFile, read_router_file

DEFAULT_FILE = "default.safetensors"
"""In this package: trained on the demo adapters and their own training data."""


class Router:
    """Scores candidates for texts. Not changed by use, and safe to share between threads."""

    def __init__(self, file: RouterFile) -> None:
        self._weights = file.weights
        self.temperature = file.temperature
        """Nats of loss that a difference of 1 between two scores stands for."""

    @classmethod
    def load(cls, path: Path) -> Router:
        """Reads a router file. Raises RouterFileError when it is none, OSError when unreadable."""
        return cls(read_router_file(path))

    @classmethod
    def default(cls) -> Router:
        """The router that ships with this package."""
        with as_file(files(__package__) / DEFAULT_FILE) as path:
            return cls.load(path)

    def embed(self, text: str) -> TextVector:
        """What the network makes of a text, of which the first 4096 characters count."""
        return text_vector(self._weights, text)

    def prototype(self, description: str, examples: Sequence[str]) -> Prototype:
        """What an adapter's card says it is for. The description counts as one more example.

        Raises ValueError when there is neither.
        """
        texts = [text for text in (description, *examples) if text.strip()]
        if not texts:
            raise ValueError("a prototype needs a description or an example prompt")
        return Prototype.of([self.embed(text) for text in texts], self._weights.num_buckets)

    def table(self, prototypes: Sequence[Prototype]) -> PrototypeTable:
        """Puts prototypes side by side for `scores`; keep it while candidates are the same."""
        return PrototypeTable.of(prototypes, self._weights)

    def scores(
        self,
        text: TextVector,
        table: PrototypeTable,
        device: DeviceState,
        resident: NDArray[np.bool_] | Sequence[bool],
    ) -> Array:
        """How well each choice suits a text; float32 [candidates + 1], the base last.

        Their softmax are the shares of a mix.

        `resident`: whether a worker holds each candidate; one that none holds is marked down by
        what loading it costs under this device state. All true tells the quality alone.
        """
        state = device.features()
        held = np.asarray(resident, np.bool_)
        if held.shape != (len(table.means),):
            raise ValueError(f"resident has the shape {held.shape}, one flag a candidate is needed")
        base = np.float32(base_score(self._weights, text, state))
        return np.append(candidate_scores(self._weights, text, table, state, held), base)
