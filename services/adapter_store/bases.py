"""The base models a store serves adapters for: a decoder, an encoder, or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.adapter_store.registry.manifest import Task
from services.chassis.base_model import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBases:
    """At least one base model."""

    decoder: BaseModel | None = None
    encoder: BaseModel | None = None

    @classmethod
    def load(cls, decoder: Path | None, encoder: Path | None) -> ServedBases:
        """Reads prepared model directories.

        Raises FileNotFoundError, and ValueError also for a model that is of the other kind.
        """
        bases = cls(
            decoder=None if decoder is None else BaseModel.load(decoder),
            encoder=None if encoder is None else BaseModel.load(encoder),
        )
        if bases.decoder is not None and bases.decoder.is_encoder:
            raise ValueError(f"{bases.decoder.name} is an encoder: it belongs to the encoder's")
        if bases.encoder is not None and not bases.encoder.is_encoder:
            raise ValueError(f"{bases.encoder.name} is no encoder: it belongs to the decoder's")
        return bases

    def of(self, task: Task) -> BaseModel | None:
        """The base model that does a task."""
        return self.encoder if task is Task.ENCODE else self.decoder

    @property
    def digests(self) -> frozenset[str]:
        """Those of the base models."""
        return frozenset(base.digest for base in self._all)

    @property
    def names(self) -> frozenset[str]:
        """Those of the base models, which no alias may have."""
        return frozenset(base.name for base in self._all)

    @property
    def _all(self) -> tuple[BaseModel, ...]:
        return tuple(base for base in (self.decoder, self.encoder) if base is not None)
