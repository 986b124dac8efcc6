"""A node whose adapters lie in the tiers as a benchmark wants them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import PlacedAdapter, deployment
from bench.package_site import package_site
from bench.result import BenchOptions
from bench.store_process import running_store
from services.chassis.base_model import BaseModel

RANK = 16
SLOTS = 4
"""Of a stack of our own."""
_NUM_FLASH, _NUM_FLASH_ELSEWHERE = 6, 20
"""More than a node's slots: 16 unless its operator chose others."""
_NUM_REMOTE = 3
"""Of each kind."""
_REMOTE_ROOM = 2.5
"""Adapters of the remote that fit on flash together."""


@dataclass(frozen=True, slots=True)
class TierNode:
    """A running node's adapters, by the tier that holds them longest."""

    flash: list[PlacedAdapter]
    remote: list[PlacedAdapter]
    """Empty on a node that was there before: its operator names the remotes."""
    encoded: list[PlacedAdapter]
    """As many, whose packages hold the encoded form too."""

    def order(self, number: int) -> list[PlacedAdapter]:
        """One round: with the least recently used going, each is out when it comes again.

        Packages with and without an encoded form take turns by round. Two of flash follow each of
        the remote, so that the one that leaves flash for the next has left the slots before.
        """
        packages = self.encoded if number % 2 else self.remote
        order: list[PlacedAdapter] = []
        for index, placed in enumerate(self.flash):
            if index % 2 == 0:
                order += packages[index // 2 : index // 2 + 1]
            order.append(placed)
        return order


@asynccontextmanager
async def tier_node(options: BenchOptions, model: BaseModel) -> AsyncIterator[TierNode]:
    """A stack of our own with a remote and little flash, or the running node of the options."""
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgelora-bench-")))
        is_own = options.address is None
        count = _NUM_FLASH + 2 * _NUM_REMOTE if is_own else _NUM_FLASH_ELSEWHERE
        files = [
            await asyncio.to_thread(
                write_random_adapter,
                root / str(number),
                model,
                rank=RANK,
                modules=ALL_LINEAR,
                seed=options.seed * 1_000_000 + number,
            )
            for number in range(count)
        ]
        if not is_own:
            node = await stack.enter_async_context(deployment(options))
            yield TierNode([await node.register(directory) for directory in files], [], [])
            return
        site = await stack.enter_async_context(package_site(root))
        bytes_each = await flash_bytes(files[0], options, root)
        settings = {
            "EDGELORA_STORE_REMOTES_FILE": str(site.remotes_file),
            "EDGELORA_STORE_FLASH_BUDGET": str(int((_NUM_FLASH + _REMOTE_ROOM) * bytes_each)),
            "EDGELORA_STORE_FLASH_MIN_RESIDENCY": "1ms",
            "EDGELORA_INFERENCE_MAX_LORAS": str(SLOTS),
        }
        node = await stack.enter_async_context(deployment(options, settings))
        # Nothing may come into a slot that no request asked for.
        for client in node.clients:
            await client.set_warm_up(is_enabled=False)
        options.progress("registering and installing adapters")
        client = node.clients[0]
        flash = [PlacedAdapter(client, f"flash-{number}") for number in range(_NUM_FLASH)]
        remote = [PlacedAdapter(client, f"remote-{number}") for number in range(_NUM_REMOTE)]
        for placed, directory in zip(flash, files, strict=False):
            await client.register_adapter(directory, alias=placed.alias)
        encoded = [PlacedAdapter(client, f"encoded-{number}") for number in range(_NUM_REMOTE)]
        for placed, directory in zip([*remote, *encoded], files[_NUM_FLASH:], strict=True):
            base = model if placed in encoded else None
            package = await asyncio.to_thread(site.publish, directory, placed.alias, base)
            await client.install_adapter(package, alias=placed.alias)
        yield TierNode(flash, remote, encoded)


async def flash_bytes(adapter: Path, options: BenchOptions, root: Path) -> int:
    """What such an adapter takes on flash, which the budget is in terms of."""
    model_directory = options.model_directory.resolve()
    async with running_store(root / "sizing", model_directory, root, {}) as store:
        return int((await store.caller.register(adapter, "sizing")).flash_bytes)
