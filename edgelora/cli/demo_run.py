"""Lets the tenants of the demonstration stream at the same time."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from edgelora.cli.demo_cast import CAST, Role
from edgelora.cli.demo_tenants import ensure_adapter, ensure_tenant
from edgelora.cli.places import CA_FILE_VARIABLE
from edgelora.client import AdminClient, EdgeLoraClient
from edgelora.errors import EdgeLoraError
from edgelora.generation import Delta, Done, FinishReason, GenerationOptions, Usage
from edgelora.local_stack.stack import RunningStack

MAX_TOKENS = 160
_OPTIONS = GenerationOptions(max_tokens=MAX_TOKENS, temperature=0.0)


@dataclass(slots=True, kw_only=True)
class StreamResult:
    """How one tenant's stream went, as its client saw it."""

    tenant: str
    adapter: str
    digest: str
    prompt: str
    text: str = ""
    num_tokens: int = 0
    ttft_s: float | None = None
    """From the call to the first piece of text."""
    last_s: float | None = None
    """From the call to the last piece of text."""
    mean_batch_size: float | None = None
    finish_reason: FinishReason | None = None
    error: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Decode rate: tokens after the first over the time they took."""
        if self.ttft_s is None or self.last_s is None or self.last_s <= self.ttft_s:
            return None
        return (self.num_tokens - 1) / (self.last_s - self.ttft_s)

    @property
    def share_of_batch(self) -> float | None:
        """This tenant's part of the batches it was in: 0.25 beside three others."""
        return 1 / self.mean_batch_size if self.mean_batch_size else None


class View(Protocol):
    """What shows the streams while they run."""

    def preparing(self, note: str) -> None:
        """Says what is being made ready."""
        ...

    def started(self, results: list[StreamResult]) -> None:
        """All streams are about to start."""
        ...

    def changed(self, result: StreamResult, piece: str) -> None:
        """One stream has grown by `piece`."""
        ...

    def ended(self) -> None:
        """No stream grows any more."""
        ...


@dataclass(slots=True)
class _Part:
    role: Role
    client: EdgeLoraClient
    result: StreamResult
    messages: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.messages = [("user", self.role.prompt)]


async def run_demo(stack: RunningStack, view: View) -> list[StreamResult]:
    """Makes tenants and adapters ready, then runs all streams at once."""
    async with AsyncExitStack() as clients:
        admin = await clients.enter_async_context(AdminClient(stack.state.admin_address))
        parts = []
        for role in CAST:
            view.preparing(f"{role.tenant}: {role.adapter}")
            tenant_id, key = await ensure_tenant(admin, stack.layout.keys, role.tenant)
            client = await clients.enter_async_context(
                EdgeLoraClient(
                    stack.state.gateway_address, key, ca_file=os.environ.get(CA_FILE_VARIABLE)
                )
            )
            digest = await ensure_adapter(client, role)
            result = StreamResult(
                tenant=tenant_id, adapter=role.adapter, digest=digest, prompt=role.prompt
            )
            parts.append(_Part(role, client, result))
        results = [part.result for part in parts]
        view.started(results)
        try:
            await asyncio.gather(*(_stream(part, view) for part in parts))
        finally:
            view.ended()
    return results


async def _stream(part: _Part, view: View) -> None:
    result = part.result
    started = time.monotonic()
    try:
        async for event in part.client.chat(
            part.messages, adapters=part.role.adapter, options=_OPTIONS
        ):
            match event:
                case Delta():
                    result.last_s = time.monotonic() - started
                    if result.ttft_s is None:
                        result.ttft_s = result.last_s
                    result.text += event.text
                    result.num_tokens += len(event.token_ids)
                    view.changed(result, event.text)
                case Usage():
                    result.num_tokens = event.num_output_tokens
                    result.mean_batch_size = event.mean_batch_size
                case Done():
                    result.finish_reason = event.finish_reason
    except EdgeLoraError as error:
        result.error = error.message
    if result.finish_reason is None and result.error is None:
        result.error = "the stream ended early"
