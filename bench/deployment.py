"""The node a benchmark loads: a stack of its own, or a running one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.result import BenchError, BenchOptions
from edgelora.client import AdminClient, EdgeLoraClient
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.layout import StackLayout
from edgelora.local_stack.stack import (
    RunningStack,
    StackOptions,
    owned_home,
    running_stack,
)
from edgelora.local_stack.supervisor import ServiceState, Supervisor
from services.chassis.base_model import FILE_NAME, BaseModel

NUM_TENANTS = 4
UNKNOWN_SENSORS: Mapping[str, str] = {
    "EDGELORA_SCHEDULER_TEMPERATURE_UNKNOWN": "normal",
    "EDGELORA_SCHEDULER_BATTERY_UNKNOWN": "normal",
}
"""Half of a machine without sensors would stay idle, and benchmarks measure what it can do."""
_MAX_CONCURRENT_REQUESTS = 1024
_MAX_REQUESTS_PER_MINUTE = 1_000_000
_MAX_TOKENS_PER_MINUTE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PlacedAdapter:
    """An adapter a benchmark registered: whose it is, and its name there."""

    client: EdgeLoraClient
    alias: str


@dataclass(slots=True)
class Deployment:
    """A node with the benchmark's tenants."""

    clients: list[EdgeLoraClient]
    """One a tenant."""
    adapters: list[PlacedAdapter] = field(default_factory=list)
    pids: Path | None = None
    """Directory of an own stack's `<service>.pid` files."""
    http_address: str | None = None
    """Of an own stack, `host:port`."""
    keys: dict[EdgeLoraClient, str] = field(default_factory=dict)
    """The API key of each client."""

    async def register(self, directory: Path) -> PlacedAdapter:
        """Registers an adapter with the tenant whose turn it is."""
        index = len(self.adapters)
        placed = PlacedAdapter(self.clients[index % len(self.clients)], f"bench-{index}")
        self.adapters.append(placed)
        await placed.client.register_adapter(directory, alias=placed.alias, replace_alias=True)
        return placed

    async def remove_adapters(self) -> None:
        """Deletes what `register` left in a node that goes on."""
        for client in self.clients:
            listed = await client.list_adapters()
            ours = {placed.alias for placed in self.adapters if placed.client is client}
            for adapter in listed.adapters:
                # A digest that has other names as well was there before: only our name goes.
                only_ours = set(adapter.aliases) <= ours
                for alias in ours & set(adapter.aliases):
                    await client.delete_adapter(adapter.digest if only_ours else alias)
                    if only_ours:
                        break


def load_base_model(options: BenchOptions) -> BaseModel:
    """Returns the description of the prepared model. Raises BenchError when there is none."""
    if not (options.model_directory / FILE_NAME).is_file():
        raise BenchError(
            f"{options.model_directory} holds no prepared model: run `edgelora model prepare`"
        )
    return BaseModel.load(options.model_directory)


@asynccontextmanager
async def deployment(
    options: BenchOptions,
    environ: Mapping[str, str] | None = None,
    num_tenants: int = NUM_TENANTS,
) -> AsyncIterator[Deployment]:
    """Yields the node at `options.address`, else a stack started for the benchmark.

    `environ` adds settings to the services of an own stack, which has `num_tenants`. Raises
    BenchError when the node cannot be had.
    """
    async with AsyncExitStack() as cleanup:
        pids: Path | None = None
        http_address: str | None = None
        if options.address is not None:
            keys = [_read_key(options)]
            address = options.address
        else:
            settings = {**UNKNOWN_SENSORS, **(environ or {})}
            options.note_settings(settings)
            stack, keys = await cleanup.enter_async_context(
                _own_stack(options, settings, num_tenants)
            )
            address, http_address = stack.state.gateway_address, stack.state.http_address
            pids = stack.layout.pids
        clients = [await cleanup.enter_async_context(EdgeLoraClient(address, key)) for key in keys]
        node = Deployment(
            clients,
            pids=pids,
            http_address=http_address,
            keys=dict(zip(clients, keys, strict=True)),
        )
        try:
            yield node
        finally:
            if options.address is not None:
                await node.remove_adapters()


@asynccontextmanager
async def _own_stack(
    options: BenchOptions, environ: Mapping[str, str], num_tenants: int
) -> AsyncIterator[tuple[RunningStack, list[str]]]:
    model = load_base_model(options)

    def report(name: str, state: ServiceState, note: str) -> None:
        if state in (ServiceState.RESTARTING, ServiceState.GIVEN_UP):
            options.progress(f"{name}: {state.value}: {note}")

    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as directory:
        home = Path(directory)
        (home / "models").mkdir()
        (home / "models" / model.name).symlink_to(options.model_directory.resolve())
        layout = StackLayout.of(home, os.environ)
        options.progress("starting a stack")
        try:
            with owned_home(layout):
                supervisor = Supervisor(logs=layout.logs, pids=layout.pids, report=report)
                choice = StackOptions(model=model.name, port=0, http_port=0, dashboard_port=0)
                async with running_stack(
                    layout, choice, {**os.environ, **environ}, supervisor
                ) as stack:
                    yield stack, await _create_tenants(stack.state.admin_address, num_tenants)
        except StackError as error:
            raise BenchError(f"the stack cannot be started: {error}") from error


async def _create_tenants(admin_address: str, num_tenants: int) -> list[str]:
    async with AdminClient(admin_address) as admin:
        created = [
            await admin.create_tenant(
                f"bench-{number}",
                max_concurrent_requests=_MAX_CONCURRENT_REQUESTS,
                max_tokens_per_minute=_MAX_TOKENS_PER_MINUTE,
                max_requests_per_minute=_MAX_REQUESTS_PER_MINUTE,
            )
            for number in range(num_tenants)
        ]
    return [response.api_key for response in created]


def _read_key(options: BenchOptions) -> str:
    if options.api_key_file is None:
        raise BenchError("--address needs --api-key-file")
    try:
        return options.api_key_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{options.api_key_file} does not hold an API key") from error
