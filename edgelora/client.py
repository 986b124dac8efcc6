"""The async clients of a node: `EdgeLoraClient` for tenants, `AdminClient` for the operator.

    async with EdgeLoraClient("127.0.0.1:50051", api_key) as client:
        await client.register_adapter(Path("adapters/email"), alias="email")
        async for event in client.chat([("user", "Invite Ann to lunch.")], adapters="email"):
            if isinstance(event, Delta):
                print(event.text, end="", flush=True)

Everything a node refuses is raised as a class of `edgelora.errors`, with the field and the remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from edgelora.adapter_upload import Progress, upload_messages
from edgelora.errors import InvalidRequestError, ServiceUnavailableError, from_rpc_error
from edgelora.generation import (
    Adapters,
    GenerationEvent,
    GenerationOptions,
    Priority,
    from_event,
    to_priority,
    to_selections,
)
from edgelora.v1 import admin_service_pb2 as admin_pb
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterAlias
from edgelora.v1.admin_service_pb2_grpc import AdminServiceStub
from edgelora.v1.gateway_service_pb2_grpc import GatewayServiceStub
from edgelora.v1.generation_pb2 import ChatMessage

DEFAULT_GENERATION_S = 300.0
DEFAULT_UPLOAD_S = 300.0
DEFAULT_CALL_S = 15.0
_MAX_MESSAGE_BYTES = 4 * 2**20
_DETAILS_KEY = "grpc-status-details-bin"
"""What a node's own errors carry."""
_DEFAULT_OPTIONS = GenerationOptions()


class _Client:
    """A channel that is closed with its client."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = grpc.aio.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
                # A unix socket's path is no host name.
                *([("grpc.default_authority", "localhost")] if address.startswith("unix") else []),
            ],
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls that still run are cancelled."""
        await self._channel.close()


class EdgeLoraClient(_Client):
    """A tenant's view of a node. One client serves any number of calls at once."""

    def __init__(self, address: str, api_key: str) -> None:
        """Connects at the first call to `host:port` or `unix:/path`."""
        super().__init__(address)
        self._stub: Any = GatewayServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._metadata = (("authorization", f"Bearer {api_key}"),)

    async def generate(
        self,
        prompt: str,
        *,
        adapters: Adapters = (),
        options: GenerationOptions = _DEFAULT_OPTIONS,
        priority: Priority = "interactive",
        timeout_s: float = DEFAULT_GENERATION_S,
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Continues a prompt: Accepted, then Deltas, then Usage and Done.

        Done comes only after a complete answer; anything else raises. Leaving the loop early
        cancels the generation on the node:

            async with aclosing(client.generate("Once upon a time")) as events:
                async for event in events:
                    ...
        """
        with _clear_errors(self._address):
            request = pb.GenerateRequest(
                prompt=prompt,
                adapters=to_selections(adapters),
                options=options.to_message(),
                priority=to_priority(priority),
            )
        async for event in self._stream(self._stub.Generate, request, timeout_s):
            yield event

    async def chat(
        self,
        messages: Iterable[tuple[str, str]],
        *,
        adapters: Adapters = (),
        options: GenerationOptions = _DEFAULT_OPTIONS,
        priority: Priority = "interactive",
        timeout_s: float = DEFAULT_GENERATION_S,
    ) -> AsyncGenerator[GenerationEvent, None]:
        """Answers a conversation of (role, content); the roles are system, user, assistant.

        Yields and raises as `generate` does.
        """
        with _clear_errors(self._address):
            request = pb.ChatRequest(
                messages=[ChatMessage(role=role, content=content) for role, content in messages],
                adapters=to_selections(adapters),
                options=options.to_message(),
                priority=to_priority(priority),
            )
        async for event in self._stream(self._stub.Chat, request, timeout_s):
            yield event

    async def register_adapter(
        self,
        directory: Path,
        *,
        alias: str = "",
        description: str = "",
        replace_alias: bool = False,
        on_progress: Progress | None = None,
        timeout_s: float = DEFAULT_UPLOAD_S,
    ) -> pb.RegisterAdapterResponse:
        """Uploads a PEFT adapter directory; returns when the node has verified and stored it.

        Raises AdapterRejectedError or AdapterIncompatibleError with what is wrong with it.
        """
        messages = upload_messages(
            directory,
            alias=alias,
            description=description,
            replace_alias=replace_alias,
            on_progress=on_progress,
        )
        with _clear_errors(self._address):
            first = next(messages)
        call = self._stub.RegisterAdapter(timeout=timeout_s, metadata=self._metadata)
        try:
            with _clear_errors(self._address):
                await _upload(call, first, messages)
                response: pb.RegisterAdapterResponse = await call
                return response
        finally:
            call.cancel()

    async def list_adapters(self) -> pb.ListAdaptersResponse:
        """The tenant's adapters and aliases."""
        response: pb.ListAdaptersResponse = await self._call(
            self._stub.ListAdapters, pb.ListAdaptersRequest()
        )
        return response

    async def set_adapter_alias(
        self, name: str, digest: str, *, expected_generation: int | None = None
    ) -> AdapterAlias:
        """Points a name to a digest; with `expected_generation` only if nobody changed it since.

        Raises AlreadyExistsError when somebody did.
        """
        request = pb.SetAdapterAliasRequest(name=name, digest=digest)
        if expected_generation is not None:
            request.expected_generation = expected_generation
        response = await self._call(self._stub.SetAdapterAlias, request)
        alias: AdapterAlias = response.alias
        return alias

    async def delete_adapter(self, adapter: str) -> pb.DeleteAdapterResponse:
        """Removes an alias, or a digest with all its aliases."""
        response: pb.DeleteAdapterResponse = await self._call(
            self._stub.DeleteAdapter, pb.DeleteAdapterRequest(adapter=adapter)
        )
        return response

    async def status(self) -> pb.GetStatusResponse:
        """The node at a glance, and the tenant's own usage."""
        response: pb.GetStatusResponse = await self._call(
            self._stub.GetStatus, pb.GetStatusRequest()
        )
        return response

    async def _call(self, method: Any, request: Any) -> Any:
        with _clear_errors(self._address):
            return await method(request, timeout=DEFAULT_CALL_S, metadata=self._metadata)

    async def _stream(
        self, method: Any, request: Any, timeout_s: float
    ) -> AsyncIterator[GenerationEvent]:
        call = method(request, timeout=timeout_s, metadata=self._metadata)
        try:
            with _clear_errors(self._address):
                async for response in call:
                    event = from_event(response.event)
                    if event is not None:
                        yield event
        finally:
            # A call object that is merely dropped goes on at the server.
            call.cancel()


class AdminClient(_Client):
    """The operator's view of a node, through its admin socket.

    async with AdminClient("unix:/run/edgelora/admin.sock") as admin:
        created = await admin.create_tenant("alice")
        print(created.api_key)
    """

    def __init__(self, address: str) -> None:
        """Connects at the first call to `unix:/path`."""
        super().__init__(address)
        self._stub: Any = AdminServiceStub(self._channel)  # type: ignore[no-untyped-call]

    async def create_tenant(
        self,
        tenant_id: str,
        *,
        max_concurrent_requests: int | None = None,
        max_tokens_per_minute: int | None = None,
    ) -> admin_pb.CreateTenantResponse:
        """Makes a tenant; the answer holds the only copy of its API key.

        Raises AlreadyExistsError when the id was ever used.
        """
        with _clear_errors(self._address):
            request = admin_pb.CreateTenantRequest(
                tenant_id=tenant_id,
                max_concurrent_requests=max_concurrent_requests,
                max_tokens_per_minute=max_tokens_per_minute,
            )
            response: admin_pb.CreateTenantResponse = await self._stub.CreateTenant(
                request, timeout=DEFAULT_CALL_S
            )
        return response

    async def list_tenants(self) -> list[admin_pb.Tenant]:
        """All tenants, by id."""
        with _clear_errors(self._address):
            response = await self._stub.ListTenants(
                admin_pb.ListTenantsRequest(), timeout=DEFAULT_CALL_S
            )
        return list(response.tenants)

    async def revoke_tenant(self, tenant_id: str) -> admin_pb.Tenant:
        """Voids a tenant's key at once. Raises NotFoundError."""
        with _clear_errors(self._address):
            response = await self._stub.RevokeTenant(
                admin_pb.RevokeTenantRequest(tenant_id=tenant_id), timeout=DEFAULT_CALL_S
            )
        tenant: admin_pb.Tenant = response.tenant
        return tenant


async def _upload(
    call: Any, first: pb.RegisterAdapterRequest, rest: Iterator[pb.RegisterAdapterRequest]
) -> None:
    try:
        await call.write(first)
        for message in rest:
            await call.write(message)
        await call.done_writing()
    except asyncio.InvalidStateError:
        return  # the node has answered already; the call itself says what


@contextmanager
def _clear_errors(address: str) -> Iterator[None]:
    """Raises what a call raised, and what the wire can not carry, as our own classes."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        has_details = any(key == _DETAILS_KEY for key, _ in error.trailing_metadata() or ())
        if error.code() is grpc.StatusCode.UNAVAILABLE and not has_details:
            # gRPC's own words, for want of a node to give any.
            raise ServiceUnavailableError(
                f"no node answers at {address}: start one with `edgelora up`, or check the address"
            ) from None
        raise from_rpc_error(error) from None
    except (ValueError, TypeError) as error:
        # protobuf's own words name the type and the range, and repeat only the number.
        raise InvalidRequestError(f"a value can not be sent: {error}") from None
