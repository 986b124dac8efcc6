"""Adapters of the measured base model, and a verifier for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.adapter_store.bases import ServedBases
from services.adapter_store.verification.measuring_base import open_measuring_base
from services.adapter_store.verification.orders import KnownForm
from services.adapter_store.verification.verifier import EncodedBlob, VerifiedAdapter, Verifier
from services.chassis.base_model import BaseModel
from tests.support.adapter_files import AdapterFiles, config_bytes, safetensors_bytes, tensors
from tests.support.measured_base import NUM_LAYERS, TARGETS

MODULES = tuple(TARGETS)


def measured_adapter(seed: int = 0, scale: float = 0.1, **changes: Any) -> AdapterFiles:
    """An adapter of rank 8 on all modules of the measured base."""
    named = tensors(MODULES, rank=8, seed=seed, targets=TARGETS, num_layers=NUM_LAYERS, scale=scale)
    config = config_bytes(r=8, lora_alpha=16, target_modules=list(MODULES), **changes)
    return AdapterFiles(config, safetensors_bytes(named))


@dataclass(frozen=True)
class Verifying:
    """Verifies files, each time with the encoded form at `encoded`, or nothing there."""

    verifier: Verifier
    directory: Path

    @property
    def encoded(self) -> Path:
        """Where the serving form goes when it is an encoded one."""
        return self.directory / "encoded"

    async def __call__(
        self, files: AdapterFiles, probe: bytes | None = None, *, candidate: bytes | None = None
    ) -> VerifiedAdapter:
        """Verifies as at a registration."""
        paths = self._write(files, probe)
        given = None
        if candidate is not None:
            given = self.directory / "candidate"
            given.write_bytes(candidate)
        return await self.verifier.verify(*paths, self.encoded, candidate=given)

    async def again(self, files: AdapterFiles, known: KnownForm) -> VerifiedAdapter | EncodedBlob:
        """Verifies as when an evicted adapter comes back."""
        return await self.verifier.verify_again(*self._write(files, None), self.encoded, known)

    def _write(self, files: AdapterFiles, probe: bytes | None) -> tuple[Path, Path, Path | None]:
        (self.directory / "config").write_bytes(files.config)
        (self.directory / "weights").write_bytes(files.weights)
        self.encoded.unlink(missing_ok=True)
        if probe is None:
            return self.directory / "config", self.directory / "weights", None
        (self.directory / "probe").write_bytes(probe)
        return self.directory / "config", self.directory / "weights", self.directory / "probe"


@asynccontextmanager
async def verifying(
    model: tuple[Path, BaseModel], directory: Path, **options: Any
) -> AsyncIterator[Verifying]:
    """A verifier for a prepared model, measuring where that is possible."""
    model_directory, base = model
    settings = {"max_rank": 64, "is_encoding": True, "max_mean_kl": 10.0} | options
    async with open_measuring_base(base, model_directory, **settings) as found:
        verifier = Verifier(
            ServedBases(decoder=base),
            max_rank=64,
            timeout_s=60,
            max_concurrent=2,
            measuring=found.measuring,
            why_not_measured=found.why_not_measured,
        )
        yield Verifying(verifier, directory)
