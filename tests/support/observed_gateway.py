"""A gateway in a process of its own that tells what it holds.

As a process: `python -m tests.support.observed_gateway CONTROL_SOCKET`, with a gateway's settings.
Whoever connects to the socket gets one line of JSON, a `Holding`.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from grpc_health.v1 import health_pb2

from services.chassis.server import run_service
from services.gateway.config import GatewayConfig
from services.gateway.gateway import serving
from tests.support.gateway_bench import GatewayBench
from tests.support.service_process import ServiceProcess

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Holding:
    """What a process holds at one moment."""

    num_tasks: int
    num_descriptors: int
    rss_bytes: int


def _holding() -> Holding:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return Holding(
        num_tasks=len(asyncio.all_tasks()),
        num_descriptors=len(os.listdir("/proc/self/fd")),
        rss_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES,
    )


class ObservedGateway:
    """The process, seen from the test."""

    def __init__(self, bench: GatewayBench, process: ServiceProcess, control: Path) -> None:
        self._bench = bench
        self._process = process
        self._control = control

    async def holding(self) -> Holding:
        """What it holds now."""
        reader, writer = await asyncio.open_unix_connection(self._control)
        try:
            return Holding(**json.loads(await reader.readline()))
        finally:
            writer.close()
            await writer.wait_closed()

    async def holding_when(self, is_true: Callable[[Holding], bool]) -> Holding:
        """What it holds once a condition is met; the test's own limit ends the wait."""
        while not is_true(holding := await self.holding()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(_PAUSE_S)
        return holding

    async def holding_when_idle(self, baseline: Holding) -> Holding:
        """What it holds once nothing runs, and it has no more tasks and descriptors than before."""
        await self._bench.wait_until_idle()
        return await self.holding_when(
            lambda now: (
                now.num_tasks <= baseline.num_tasks
                and now.num_descriptors <= baseline.num_descriptors
            )
        )

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.process.poll() is None

    def log_text(self) -> str:
        """Everything it wrote, to either output."""
        return self._process.output() + self._process.errors()

    def log(self, event: str) -> list[dict]:
        """Its log lines of one event."""
        return self._process.log(event)


async def observed_gateway(bench: GatewayBench, **settings: str) -> ObservedGateway:
    """A ready gateway for a bench whose other services run."""
    control = bench.directory / "control.sock"
    process = ServiceProcess(
        "tests.support.observed_gateway",
        str(control),
        environ=bench.gateway_environ(**settings),
        logs=bench.directory,
    )
    bench.ends_with(process)
    await bench.wait_for_health(health_pb2.HealthCheckResponse.SERVING)
    return ObservedGateway(bench, process, control)


async def _tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(json.dumps(asdict(_holding())).encode() + b"\n")
    writer.close()
    await writer.wait_closed()


async def _main(environ: Mapping[str, str]) -> None:
    async with (
        serving(GatewayConfig.from_env(environ)) as host,
        await asyncio.start_unix_server(_tell, sys.argv[1]),
    ):
        await host.wait_for_stop()


if __name__ == "__main__":
    run_service("gateway", _main)
