"""Brings one layer into its partial file: bounded, fast enough, hashed, resumed, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from services.adapter_store.remotes.counters import RemoteCounters
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure, faulty, unreachable
from services.adapter_store.remotes.package import Layer
from services.adapter_store.remotes.quarantine import PartialFile
from services.adapter_store.remotes.reference import PackageReference
from services.adapter_store.remotes.source import ByteStream, PackageSource
from services.adapter_store.threads import in_thread

_WRITE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """How slow a remote may be."""

    rate_bytes: int = 100 * 1024
    """So many bytes have to arrive in every `rate_window_s`: 10 KiB a second."""
    rate_window_s: float = 10.0
    total_s: float = 1800.0
    """For one layer, tries and pauses included."""


class LayerTransfer:
    """One layer from one remote, over as many tries as `attempt` is called."""

    def __init__(
        self,
        source: PackageSource,
        reference: PackageReference,
        layer: Layer,
        partial: PartialFile,
        *,
        limits: TransferLimits,
        open_timeout_s: float | None,
        counters: RemoteCounters,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._source = source
        self._reference = reference
        self._layer = layer
        self._partial = partial
        self._limits = limits
        self._open_timeout_s = open_timeout_s
        self._counters = counters
        self._on_bytes = on_bytes
        self._validator: str | None = None

    async def attempt(self) -> None:
        """Goes on where the partial file ends; returns when it is whole, right and synced.

        Raises RemoteFailure, with CORRUPT after throwing everything away, and
        ResourcePressureError.
        """
        self._counters.num_attempts += 1
        if self._partial.size_bytes < self._layer.size_bytes:
            await self._receive()
        if self._partial.size_bytes < self._layer.size_bytes:
            raise faulty("it cut the transfer")
        if self._partial.digest != self._layer.digest:
            await in_thread(self._partial.restart)
            raise _corrupt()
        await in_thread(self._partial.sync)

    async def _receive(self) -> None:
        offset = self._partial.size_bytes
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._open_timeout_s):
                    stream = await stack.enter_async_context(
                        self._source.open(self._reference, self._layer, offset, self._validator)
                    )
            except TimeoutError:
                raise unreachable("it does not answer in time") from None
            if stream.offset != offset:
                await in_thread(self._partial.restart)
            elif offset:
                self._counters.num_resumes += 1
            self._validator = stream.validator
            await self._copy(stream)

    async def _copy(self, stream: ByteStream) -> None:
        clock_s = asyncio.get_running_loop().time
        buffer = bytearray()
        window_bytes = 0
        try:
            async with (
                asyncio.timeout(self._limits.rate_window_s) as window,
                aclosing(stream.chunks) as chunks,
            ):
                async for chunk in chunks:
                    self._counters.bytes_moved += len(chunk)
                    if self._partial.size_bytes + len(buffer) + len(chunk) > self._layer.size_bytes:
                        buffer.clear()
                        await in_thread(self._partial.restart)
                        raise _corrupt()
                    buffer += chunk
                    window_bytes += len(chunk)
                    if window_bytes >= self._limits.rate_bytes:
                        window_bytes = 0
                        window.reschedule(clock_s() + self._limits.rate_window_s)
                    if len(buffer) >= _WRITE_BYTES:
                        await self._flush(buffer)
        except TimeoutError:
            raise faulty("it is too slow") from None
        finally:
            await self._flush(buffer)

    async def _flush(self, buffer: bytearray) -> None:
        if buffer:
            data = bytes(buffer)
            buffer.clear()
            await in_thread(self._partial.append, data)
            self._on_bytes(self._partial.size_bytes)


def _corrupt() -> RemoteFailure:
    return RemoteFailure(
        FailureKind.CORRUPT,
        "a file of the package does not match its checksum: nothing of it was kept",
    )
