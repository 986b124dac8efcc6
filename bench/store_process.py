"""An adapter store of its own: the real process over a directory, called as its clients do."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil

from bench.result import BenchError
from edgelora.adapter_upload import CHUNK_BYTES, FILE_NAMES
from edgelora.local_stack.log_files import last_line
from edgelora.local_stack.processes import ChildProcess
from edgelora.local_stack.wiring import process_environment
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import Adapter, AdapterSelection
from edgelora.v1.adapter_store_service_pb2_grpc import AdapterStoreServiceStub
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.channel import open_channel, translate_errors
from services.chassis.claims import seal_claim
from services.chassis.healthcheck import is_serving
from services.chassis.sealing import Sealer, boot_clock_s

TENANT = "bench"
WORKER = "bench"
_READY_LIMIT_S = 120.0
_POLL_S = 0.01
_CALL_S = 120.0
_CLAIM_LIFE_S = 300.0
_STOP_GRACE_S = 12.0
_FILES = (pb.ADAPTER_FILE_CONFIG, pb.ADAPTER_FILE_WEIGHTS)


class StoreCaller:
    """Calls the store under the one tenant's claim, and reports as its one worker."""

    def __init__(self, channel: grpc.aio.Channel, sealer: Sealer) -> None:
        self._stub: Any = AdapterStoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self._sealer = sealer
        self._num_reports = 0

    async def register(self, directory: Path, alias: str) -> Adapter:
        """Sends an adapter's two files; returns it once it is verified and stored."""
        contents = [(directory / name).read_bytes() for name in FILE_NAMES]
        header = pb.StoreUploadHeader(
            claim=self._claim(),
            alias=alias,
            replace_alias=True,
            config_size_bytes=len(contents[0]),
            weights_size_bytes=len(contents[1]),
        )
        with translate_errors():
            response = await self._stub.RegisterAdapter(_upload(header, contents), timeout=_CALL_S)
        adapter: Adapter = response.adapter
        return adapter

    async def resolve(self, adapter: str) -> None:
        """Authorises a request for one adapter, an alias or digest."""
        request = pb.ResolveAdaptersRequest(
            claim=self._claim(), adapters=[AdapterSelection(adapter=adapter)]
        )
        await self._call(self._stub.ResolveAdapters, request)

    async def page(self, size: int, token: str) -> pb.AdapterStoreServiceListAdaptersResponse:
        """One page of the listing."""
        request = pb.AdapterStoreServiceListAdaptersRequest(
            claim=self._claim(), page_size=size, page_token=token
        )
        response: pb.AdapterStoreServiceListAdaptersResponse = await self._call(
            self._stub.ListAdapters, request
        )
        return response

    async def get(self, adapter: str) -> None:
        """Everything about one adapter."""
        request = pb.AdapterStoreServiceGetAdapterRequest(claim=self._claim(), adapter=adapter)
        await self._call(self._stub.GetAdapter, request)

    async def pin(self, adapter: str, *, is_pinned: bool) -> None:
        """Pins an adapter, or lets it go."""
        request = pb.AdapterStoreServicePinAdapterRequest(
            claim=self._claim(), adapter=adapter, is_pinned=is_pinned
        )
        await self._call(self._stub.PinAdapter, request)

    async def delete(self, adapter: str) -> None:
        """Removes an adapter with its aliases."""
        request = pb.AdapterStoreServiceDeleteAdapterRequest(claim=self._claim(), adapter=adapter)
        await self._call(self._stub.DeleteAdapter, request)

    async def report(self, digests: Sequence[str]) -> None:
        """Says that the worker holds these adapters and no others."""
        self._num_reports += 1
        request = pb.ReportResidencyRequest(
            worker=WORKER,
            incarnation=1,
            sequence=self._num_reports,
            num_slots=len(digests),
            adapters=[pb.ResidentAdapter(digest=digest) for digest in digests],
        )
        await self._call(self._stub.ReportResidency, request)

    def _claim(self) -> Sealed:
        return seal_claim(
            self._sealer,
            tenant_id=TENANT,
            request_id="bench",
            expires_at_boot_s=boot_clock_s() + _CLAIM_LIFE_S,
        )

    async def _call(self, method: Any, request: Any) -> Any:
        with translate_errors():
            return await method(request, timeout=_CALL_S)


@dataclass(frozen=True, slots=True)
class RunningStore:
    """A store that is ready."""

    caller: StoreCaller
    ready_s: float
    """From its start to the moment its health was seen to be good."""
    process: psutil.Process


@asynccontextmanager
async def running_store(
    directory: Path, model_directory: Path, run_directory: Path, settings: Mapping[str, str]
) -> AsyncIterator[RunningStore]:
    """Runs a store over a directory.

    `run_directory` takes its socket, key, pid file and log; `settings` are variables by their full
    names. Raises BenchError when it does not become ready.
    """
    key_file = run_directory / "seal.key"
    key_file.write_text(secrets.token_hex(32), encoding="ascii")
    address = f"unix:{run_directory / 'store.sock'}"
    own = {
        "EDGELORA_STORE_ADDRESS": address,
        "EDGELORA_STORE_DIRECTORY": str(directory),
        "EDGELORA_STORE_MODEL_DIRECTORY": str(model_directory),
        "EDGELORA_STORE_SEAL_KEY_FILE": str(key_file),
        **settings,
    }
    log = run_directory / "store.log"
    started_s = time.monotonic()
    process = ChildProcess(
        [sys.executable, "-I", "-m", "services.adapter_store"],
        environ=process_environment("adapter_store", own, os.environ),
        log=log,
        pid_file=run_directory / "store.pid",
    )
    try:
        while not await is_serving(address):
            is_late = time.monotonic() > started_s + _READY_LIMIT_S
            if is_late or process.exit_status() is not None:
                raise BenchError(f"the adapter store does not start: {last_line(log)}")
            await asyncio.sleep(_POLL_S)
        ready_s = time.monotonic() - started_s
        async with open_channel(address) as channel:
            caller = StoreCaller(channel, Sealer(key_file.read_bytes()))
            yield RunningStore(caller, ready_s, psutil.Process(process.pid))
    finally:
        await process.stop(_STOP_GRACE_S)


def _upload(
    header: pb.StoreUploadHeader, contents: Sequence[bytes]
) -> Iterator[pb.AdapterStoreServiceRegisterAdapterRequest]:
    yield pb.AdapterStoreServiceRegisterAdapterRequest(header=header)
    for file, content in zip(_FILES, contents, strict=True):
        for start in range(0, len(content), CHUNK_BYTES):
            chunk = pb.StoreUploadChunk(file=file, data=content[start : start + CHUNK_BYTES])
            yield pb.AdapterStoreServiceRegisterAdapterRequest(chunk=chunk)
