"""The adapters of the stress benchmark: small and large ones, one with a version of lower rank."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.adapters import QUERY_VALUE, write_random_adapter
from bench.deployment import Deployment, PlacedAdapter
from bench.result import BenchOptions
from edgelora.adapter_format.rank_cut import cut_adapter
from services.chassis.base_model import BaseModel

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_CUT_RANK = 16
_VERSIONED = "r64v"
ADAPTERS: Sequence[tuple[str, int]] = (
    ("r8", 8),
    (_VERSIONED, 64),
    ("r64", 64),
    ("r16", 16),
    ("r16b", 16),
    ("r32", 32),
    ("r8b", 8),
    ("r64b", 64),
)
"""Name and rank; the tenants in turn."""


async def register_adapters(
    node: Deployment,
    model: BaseModel,
    adapters: Sequence[tuple[str, int]],
    options: BenchOptions,
) -> None:
    """Registers them, and a cut version of r64v."""
    for number, (name, rank) in enumerate(adapters):
        client = node.clients[number % len(node.clients)]
        with tempfile.TemporaryDirectory(prefix="edgelora-bench-adapter-") as directory:
            adapter = await asyncio.to_thread(
                write_random_adapter,
                Path(directory) / "adapter",
                model,
                rank=rank,
                modules=QUERY_VALUE,
                seed=options.seed * 1_000_000 + number,
            )
            registered = await client.register_adapter(adapter, alias=name)
            node.adapters.append(PlacedAdapter(client, name))
            if name == _VERSIONED:
                version = await asyncio.to_thread(_cut, adapter, Path(directory) / "version")
                await client.register_adapter(version, version_of_digest=registered.adapter.digest)


def _cut(adapter: Path, version: Path) -> Path:
    cut = cut_adapter(
        (adapter / _CONFIG).read_bytes(), (adapter / _WEIGHTS).read_bytes(), _CUT_RANK
    )
    version.mkdir()
    (version / _CONFIG).write_bytes(cut.config)
    (version / _WEIGHTS).write_bytes(cut.weights)
    return version
