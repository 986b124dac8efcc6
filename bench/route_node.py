"""A stack with groups of near-equal adapters: more than its slots and its flash hold."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import deployment, load_base_model
from bench.package_site import PackageSite, package_site
from bench.result import BenchOptions
from bench.route_cards import VersionCard, version_cards
from bench.tier_node import flash_bytes
from edgelora.client import EdgeLoraClient
from edgelora.routing.router_file import RouterFile
from services.chassis.base_model import BaseModel

RANK = 16
FLASH_PER_SLOT = 2
"""Adapters that flash holds for each slot, where they come from a remote."""
Placement = Literal["flash", "remote, encoded form", "remote"]
"""Where an adapter is that is in no slot: on flash, or for most of them at a remote, in a package
with or without its encoded form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteNode:
    """A running node of one tenant."""

    client: EdgeLoraClient
    cards: Sequence[VersionCard]
    digests: Sequence[str]
    """Of the adapters, in the order of their cards."""
    router_file: Path
    """Which the scheduler reads again when it changes."""

    def use_router(self, content: RouterFile) -> None:
        """Writes the router's file anew."""
        write_router(self.router_file, content)


@asynccontextmanager
async def route_node(
    options: BenchOptions,
    content: RouterFile,
    groups: Sequence[str],
    *,
    placement: Placement,
    num_versions: int,
    num_slots: int,
) -> AsyncIterator[RouteNode]:
    """Yields a stack of its own with `num_versions` adapters of each group."""
    model = load_base_model(options)
    cards = version_cards(groups, num_versions, options.seed)
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgelora-bench-")))
        directories = [
            await asyncio.to_thread(_write_adapter, root, number, card, model, options.seed)
            for number, card in enumerate(cards)
        ]
        router_file = root / "router.safetensors"
        write_router(router_file, content)
        settings = {
            "EDGELORA_SCHEDULER_ROUTER_FILE": str(router_file),
            "EDGELORA_SCHEDULER_ROUTER_TOP_K": "1",
            "EDGELORA_INFERENCE_MAX_LORAS": str(num_slots),
            # Else what one replay computed would be there for the next.
            "EDGELORA_INFERENCE_PREFIX_CACHING": "false",
        }
        site = None
        if placement != "flash":
            site = await stack.enter_async_context(package_site(root))
            bytes_each = await flash_bytes(directories[0], options, root)
            settings |= {
                "EDGELORA_STORE_REMOTES_FILE": str(site.remotes_file),
                "EDGELORA_STORE_FLASH_BUDGET": str(
                    int((FLASH_PER_SLOT * num_slots + 0.5) * bytes_each)
                ),
                "EDGELORA_STORE_FLASH_MIN_RESIDENCY": "1ms",
            }
        node = await stack.enter_async_context(deployment(options, settings, num_tenants=1))
        (client,) = node.clients
        # Nothing may come into a slot that no request asked for.
        await client.set_warm_up(is_enabled=False)
        digests = []
        for number, (directory, card) in enumerate(zip(directories, cards, strict=True)):
            if number % 8 == 0:
                options.progress(f"adapters at hand, {number} of {len(cards)}")
            alias = f"{card.group}-{number}"
            encoded_for = model if placement == "remote, encoded form" else None
            digests.append(await _place(client, directory, alias, site, encoded_for))
        yield RouteNode(client=client, cards=cards, digests=digests, router_file=router_file)


def write_router(file: Path, content: RouterFile) -> None:
    """Writes a router file in one step."""
    partial = file.with_name(f"{file.name}.partial")
    partial.write_bytes(content.encoded())
    partial.replace(file)


def _write_adapter(root: Path, number: int, card: VersionCard, model: BaseModel, seed: int) -> Path:
    directory = write_random_adapter(
        root / str(number), model, rank=RANK, modules=ALL_LINEAR, seed=seed * 1_000_000 + number
    )
    (directory / "card.json").write_text(json.dumps(card.document()), encoding="utf-8")
    return directory


async def _place(
    client: EdgeLoraClient,
    directory: Path,
    alias: str,
    site: PackageSite | None,
    encoded_for: BaseModel | None,
) -> str:
    if site is None:
        registered = await client.register_adapter(directory, alias=alias)
    else:
        package = await asyncio.to_thread(site.publish, directory, alias, encoded_for)
        registered = await client.install_adapter(package, alias=alias)
    return registered.adapter.digest
