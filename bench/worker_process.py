"""An inference worker started by itself, as the supervisor starts it, and asked directly."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil

from bench.result import BenchError
from edgelora.v1.generation_pb2 import (
    GenerationInput,
    GenerationOptions,
    PriorityClass,
    StopConditions,
)
from edgelora.v1.inference_service_pb2 import InferenceServiceGenerateRequest
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from edgelora.v1.ticket_pb2 import Ticket
from services.chassis.channel import open_channel
from services.chassis.claims import seal_ticket
from services.chassis.healthcheck import is_serving
from services.chassis.sealing import Sealer, boot_clock_s

_NAME = "bench"
_START_LIMIT_S = 60.0
_LOOK_EVERY_S = 0.005
_TICKET_LIFE_S = 300.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process, in bytes (/proc/PID/smaps_rollup)."""

    resident: int
    """RSS: every page in memory."""
    proportional: int
    """PSS: a page shared by n processes counts 1/n."""

    @classmethod
    def of(cls, pid: int, proc: Path = Path("/proc")) -> Memory:
        """Reads it."""
        fields = {}
        lines = (proc / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
        for line in lines[1:]:
            name, value, _ = line.split()
            fields[name.removesuffix(":")] = int(value) * 1024
        return cls(fields["Rss"], fields["Pss"])


class WorkerProcess:
    """A worker that serves."""

    def __init__(self, pid: int, channel: grpc.aio.Channel, sealer: Sealer) -> None:
        self.pid = pid
        self._stub = InferenceServiceStub(channel)  # type: ignore[no-untyped-call]
        self._sealer = sealer

    async def generate(self, prompt: str, max_tokens: int) -> None:
        """Generates `max_tokens` tokens with the base model."""
        ticket = Ticket(
            ticket_id=uuid.uuid4().hex,
            tenant_id="bench",
            request_id="bench",
            worker=_NAME,
            priority=PriorityClass.PRIORITY_CLASS_INTERACTIVE,
            max_output_tokens=max_tokens,
            expires_at_boot_s=boot_clock_s() + _TICKET_LIFE_S,
        )
        request = InferenceServiceGenerateRequest(
            ticket=seal_ticket(self._sealer, ticket),
            input=GenerationInput(prompt=prompt),
            options=GenerationOptions(stop=StopConditions(max_tokens=max_tokens, ignore_eos=True)),
        )
        try:
            async for _ in self._stub.Generate(request):
                pass
        except grpc.aio.AioRpcError as error:
            raise BenchError(f"the worker answered {error.code().name}") from error

    def processor_s(self) -> float:
        """Processor time used so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def worker_process(
    model_directory: Path, place: Path, settings: Mapping[str, str]
) -> AsyncIterator[WorkerProcess]:
    """Yields a worker that says it serves. `model_directory` is absolute; `place` is made here.

    Its adapter store does not exist, so only the base model can be asked for. Raises BenchError
    when it does not start.
    """
    key = secrets.token_hex(32).encode("ascii")
    address = f"unix:{place}/worker.sock"
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "EDGELORA_INFERENCE_ADDRESS": address,
        "EDGELORA_INFERENCE_NAME": _NAME,
        "EDGELORA_INFERENCE_MODEL_DIRECTORY": str(model_directory),
        "EDGELORA_INFERENCE_STORE_ADDRESS": f"unix:{place}/store.sock",
        "EDGELORA_INFERENCE_SEAL_KEY_FILE": str(_write_key(place, key)),
        **{f"EDGELORA_INFERENCE_{name}": value for name, value in settings.items()},
    }
    log = place / "worker.log"
    with log.open("w", encoding="utf-8") as output:
        child = subprocess.Popen(  # noqa: ASYNC220 - starting it is all that is waited for
            [sys.executable, "-m", "services.inference"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        await _wait_until_serving(child, address, log)
        async with open_channel(address) as channel:
            yield WorkerProcess(child.pid, channel, Sealer(key))
    finally:
        child.terminate()
        await asyncio.to_thread(child.wait)


def _write_key(place: Path, key: bytes) -> Path:
    place.mkdir()
    file = place / "seal_key"
    file.touch(mode=0o600)
    file.write_bytes(key)
    return file


async def _wait_until_serving(child: subprocess.Popen[bytes], address: str, log: Path) -> None:
    limit_s = time.monotonic() + _START_LIMIT_S
    while not await is_serving(address):
        if child.poll() is not None or time.monotonic() > limit_s:
            text = await asyncio.to_thread(log.read_text, encoding="utf-8", errors="replace")
            last = text.strip().splitlines()[-1:] or ["no word"]
            raise BenchError(f"the worker does not serve: {last[0]}")
        await asyncio.sleep(_LOOK_EVERY_S)
