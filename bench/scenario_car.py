"""`scenario car`: a driver, a passenger and a child at once, with the remote registry cut.

A running stack whose adapters were installed from a remote, a static HTTP server that is stopped
before the first round. The driver's voice is interactive and short, the child's questions are
interactive and longer, the passenger's recommendations are background work; three tenants, an
adapter of rank 16 on all linear modules each. A round begins with the three of them within 0.3 s,
in drawn order, and ends when all are answered. An installation of one more package is tried during
the rounds, and has to fail because the remote cannot be reached. First response: from sending to
the first token, by a gRPC client through the gateway.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.adapters import ALL_LINEAR, write_random_adapter
from bench.deployment import PlacedAdapter, deployment, load_base_model
from bench.load import Request, send_request
from bench.measure import RequestRecord, percentile
from bench.package_site import package_site
from bench.process_watch import ProcessWatch, process_watch
from bench.prompts import PromptWriter
from bench.request_ends import Ends
from bench.result import BenchError, BenchOptions, BenchResult, Target
from bench.shares import spread, waits_s
from bench.tier_counts import tier_counts
from edgelora.errors import EdgeLoraError
from edgelora.generation import Priority

_RANK = 16
_DRIVER = "driver"
_MAX_DRIVER_P95_MS = 400.0
_SPREAD_S = 0.3
_LOOK_EVERY_S = 1.0
_INSTALL_LIMIT_S = 30.0
_CUT = "UNAVAILABLE unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Occupant:
    priority: Priority
    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]


_OCCUPANTS: Mapping[str, _Occupant] = {
    _DRIVER: _Occupant(priority="interactive", input_tokens=(8, 32), output_tokens=(8, 16)),
    "passenger": _Occupant(priority="background", input_tokens=(64, 192), output_tokens=(48, 96)),
    "child": _Occupant(priority="interactive", input_tokens=(16, 48), output_tokens=(16, 48)),
}
"""One tenant each."""


def run(options: BenchOptions) -> BenchResult:
    """Drives the rounds with the remote cut."""
    if options.address is not None:
        raise BenchError("scenario car starts a stack of its own: leave --address out")
    return asyncio.run(run_rounds(12 if options.quick else 100, options))


async def run_rounds(num_rounds: int, options: BenchOptions) -> BenchResult:
    """Runs them on a stack of its own; of the remote's four packages one is never installed."""
    model = load_base_model(options)
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgelora-bench-")))
        site = await stack.enter_async_context(package_site(root))
        packages = []
        for number, name in enumerate([*_OCCUPANTS, "missing"]):
            directory = await asyncio.to_thread(
                write_random_adapter,
                root / name,
                model,
                rank=_RANK,
                modules=ALL_LINEAR,
                seed=options.seed * 1_000_000 + number,
            )
            packages.append(await asyncio.to_thread(site.publish, directory, name))
        settings = {"EDGELORA_STORE_REMOTES_FILE": str(site.remotes_file)}
        node = await stack.enter_async_context(
            deployment(options, settings, num_tenants=len(_OCCUPANTS))
        )
        options.progress("installing adapters, then cutting the remote")
        for client, name, package in zip(node.clients, _OCCUPANTS, packages, strict=False):
            await client.install_adapter(package, alias=name)
            node.adapters.append(PlacedAdapter(client, name))
        await site.cut()
        assert node.pids is not None  # the stack is our own
        async with process_watch(node.pids, _LOOK_EVERY_S) as watch:
            drive = Drive(node.adapters, PromptWriter(options.model_directory), options.seed)
            await drive.run(num_rounds, packages[-1], options)
    return result(drive, watch)


class Drive:
    """Rounds of the three occupants, and what became of them."""

    def __init__(self, adapters: Sequence[PlacedAdapter], writer: PromptWriter, seed: int) -> None:
        self._adapters = adapters
        self._writer = writer
        self._seed = seed
        self.records: dict[str, list[RequestRecord]] = {name: [] for name in _OCCUPANTS}
        self.installation = "none tried"
        """What the installation from the cut remote was answered."""
        self.num_remote_hits = 0
        """Requests for which the node had to ask the remote."""

    async def run(self, num_rounds: int, missing: str, options: BenchOptions) -> None:
        """Runs the rounds after one that loads the adapters; tries to install in the middle."""
        client = self._adapters[0].client
        await self._round(random.Random(f"{self._seed} first"), "first")
        for records in self.records.values():
            records.clear()
        before = await tier_counts(client)
        async with asyncio.TaskGroup() as group:
            for number in range(num_rounds):
                if number % max(1, num_rounds // 4) == 0:
                    options.progress(f"round {number + 1} of {num_rounds}")
                if number == num_rounds // 2:
                    group.create_task(self._try_install(missing))
                await self._round(random.Random(f"{self._seed} {number}"), str(number))
        self.num_remote_hits = (await tier_counts(client) - before).num_remote_hits

    async def _round(self, draw: random.Random, name: str) -> None:
        await asyncio.gather(
            *(
                self._ask(placed, occupant, draw.uniform(0.0, _SPREAD_S), draw, name)
                for placed, occupant in zip(self._adapters, _OCCUPANTS, strict=True)
            )
        )

    async def _ask(
        self,
        placed: PlacedAdapter,
        name: str,
        delay_s: float,
        draw: random.Random,
        round_name: str,
    ) -> None:
        occupant = _OCCUPANTS[name]
        request = Request(
            client=placed.client,
            adapter=placed.alias,
            prompt=self._writer.write(
                draw.randint(*occupant.input_tokens), f"{self._seed} {name} {round_name}"
            ),
            num_output_tokens=draw.randint(*occupant.output_tokens),
            priority=occupant.priority,
        )
        await asyncio.sleep(delay_s)
        self.records[name].append(await send_request(request, time.monotonic()))

    async def _try_install(self, package: str) -> None:
        try:
            await self._adapters[0].client.install_adapter(package, timeout_s=_INSTALL_LIMIT_S)
        except EdgeLoraError as error:
            self.installation = f"{error.code} {error.metadata.get('remote', '')}".strip()
        else:
            self.installation = "installed"


def result(drive: Drive, watch: ProcessWatch) -> BenchResult:
    """The figures of a drive."""
    rows = [_row(name, records) for name, records in drive.records.items()]
    driver_p95_ms = rows[0]["first_response_p95_ms"]
    ends = Ends.of([record for records in drive.records.values() for record in records])
    is_cut = drive.installation == _CUT
    return BenchResult(
        results={
            "rounds": len(drive.records[_DRIVER]),
            "adapter_rank": _RANK,
            "installing_meanwhile": drive.installation,
            "requests_that_asked_the_remote": drive.num_remote_hits,
            "ends": ends.document(),
            "processes_changed": sorted(watch.changed),
            "occupants": rows,
        },
        targets=[
            Target.at_most("driver's first response, p95, ms", _MAX_DRIVER_P95_MS, driver_p95_ms),
            Target.at_least("the remote was cut", 1, int(is_cut)),
            Target.at_most("requests lost", 0, ends.num_lost),
            Target.at_most("requests refused or failed", 0, ends.num_refused + ends.num_errors),
            Target.at_most("processes that ended", 0, len(watch.changed)),
        ],
    )


def _row(name: str, records: Sequence[RequestRecord]) -> dict[str, Any]:
    waits = waits_s(records)
    p95_s = percentile(waits, 95)
    figures = spread(waits)
    return {
        "who": name,
        "class": _OCCUPANTS[name].priority,
        "done": Ends.of(records).num_done,
        "first_response_p50_ms": figures["p50_ms"],
        "first_response_p95_ms": None if p95_s is None else round(p95_s * 1000, 2),
        "first_response_max_ms": figures["max_ms"],
    }
