"""Translates the GatewayService protos to the domain and back."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, TypeVar

import grpc
import structlog

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1 import gateway_service_pb2_grpc as rpc
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.tls import peer_uris
from services.gateway import validation
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.authentication import Caller
from services.gateway.deadline import Deadlines
from services.gateway.encoding.answers import bind_log_context
from services.gateway.front_door import FrontDoor
from services.gateway.generation import GenerationStream
from services.gateway.installation import Installations
from services.gateway.node_status import NodeStatus
from services.gateway.quota import Quota
from services.gateway.roles import Role, require
from services.gateway.upload import UploadRelay

_Context = grpc.aio.ServicerContext[Any, Any]
MessageT = TypeVar("MessageT")


class GatewayServicer(rpc.GatewayServiceServicer):
    """The gRPC face of the gateway."""

    def __init__(
        self,
        *,
        door: FrontDoor,
        uploads: UploadRelay,
        installations: Installations,
        catalogue: AdapterCatalogue,
        quota: Quota,
        status: NodeStatus,
        deadlines: Deadlines,
    ) -> None:
        self._door = door
        self._uploads = uploads
        self._installations = installations
        self._catalogue = catalogue
        self._quota = quota
        self._status = status
        self._deadlines = deadlines

    async def Generate(
        self, request: pb.GenerateRequest, context: _Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """Streams the continuation of a prompt."""
        caller = await self._authenticate(context)
        stream = self._door.generate(caller, request, remaining_s=context.time_remaining())
        async for event in _read(stream, context):
            yield pb.GenerateResponse(event=event)

    async def Chat(
        self, request: pb.ChatRequest, context: _Context
    ) -> AsyncIterator[pb.ChatResponse]:
        """Streams the answer to a conversation."""
        caller = await self._authenticate(context)
        stream = self._door.chat(caller, request, remaining_s=context.time_remaining())
        async for event in _read(stream, context):
            yield pb.ChatResponse(event=event)

    async def Classify(self, request: pb.ClassifyRequest, context: _Context) -> pb.ClassifyResponse:
        """Says which label each text belongs to."""
        caller = await self._authenticate(context)
        response = await self._door.classify(caller, request, remaining_s=context.time_remaining())
        bind_log_context(response)
        return response

    async def Embed(self, request: pb.EmbedRequest, context: _Context) -> pb.EmbedResponse:
        """Turns texts into vectors."""
        caller = await self._authenticate(context)
        response = await self._door.embed(caller, request, remaining_s=context.time_remaining())
        bind_log_context(response)
        return response

    async def SetStrength(
        self, request: pb.SetStrengthRequest, context: _Context
    ) -> pb.SetStrengthResponse:
        """Changes the strength of an adapter of a running generation."""
        caller = await self._authenticate(context)
        adapters = await self._door.set_strength(
            caller, request.request_id, request.adapter, request.strength
        )
        return pb.SetStrengthResponse(adapters=adapters)

    async def ForgetSession(
        self, request: pb.ForgetSessionRequest, context: _Context
    ) -> pb.ForgetSessionResponse:
        """Drops what is kept of the caller's conversations."""
        caller = await self._authenticate(context)
        return pb.ForgetSessionResponse(
            num_forgotten=await self._door.forget_session(caller, request.session)
        )

    async def GetStatus(
        self, request: pb.GetStatusRequest, context: _Context
    ) -> pb.GetStatusResponse:
        """Tells the state of the node and the caller's usage."""
        caller = await self._authenticate(context)
        return await self._status.get(caller.tenant)

    async def RegisterAdapter(
        self, request_iterator: AsyncIterator[pb.RegisterAdapterRequest], context: _Context
    ) -> pb.RegisterAdapterResponse:
        """Takes an upload; it counts as one of the caller's running requests."""
        caller = await self._authenticate(context, Role.AUTHOR)
        reservation = self._quota.admit(caller.tenant, reserved_tokens=0)
        try:
            registered = await self._uploads.relay(
                self._while_active(caller, request_iterator),
                caller.claim,
                self._deadlines.of_transfer(context.time_remaining()),
            )
        finally:
            self._quota.settle(reservation, used_tokens=0)
        _log_registered(registered)
        return registered

    async def InstallAdapter(
        self, request: pb.InstallAdapterRequest, context: _Context
    ) -> AsyncIterator[pb.InstallAdapterResponse]:
        """Streams the progress of an installation, then its result."""
        caller = await self._authenticate(context, Role.AUTHOR)
        validation.check_install(request)
        installation = self._installations.start(
            caller,
            request,
            budget_s=self._deadlines.of_installation(context.time_remaining()),
        )
        # As in `_read`: a client that leaves may never resume this generator.
        context.add_done_callback(lambda _: installation.cancel())  # type: ignore[arg-type]
        try:
            async for event in self._while_active(caller, installation.events):
                if event.HasField("registered"):
                    _log_registered(event.registered)
                yield event
        finally:
            installation.cancel()

    async def ListAdapters(
        self, request: pb.ListAdaptersRequest, context: _Context
    ) -> pb.ListAdaptersResponse:
        """Lists a page of the caller's adapters."""
        return await self._catalogue.list(request, await self._claim(context))

    async def GetAdapter(
        self, request: pb.GetAdapterRequest, context: _Context
    ) -> pb.GetAdapterResponse:
        """Tells everything about one of the caller's adapters."""
        return await self._catalogue.get(request, await self._claim(context))

    async def PinAdapter(
        self, request: pb.PinAdapterRequest, context: _Context
    ) -> pb.PinAdapterResponse:
        """Keeps an adapter of the caller close, or lets it go."""
        return await self._catalogue.pin(request, await self._claim(context, Role.AUTHOR))

    async def SetWarmUp(
        self, request: pb.SetWarmUpRequest, context: _Context
    ) -> pb.SetWarmUpResponse:
        """Switches the forecasts of the caller's habits, or forgets them."""
        is_question = not request.HasField("is_enabled") and not request.forget
        claim = await self._claim(context, Role.USER if is_question else Role.AUTHOR)
        return await self._catalogue.set_warm_up(request, claim)

    async def SetAdapterAlias(
        self, request: pb.SetAdapterAliasRequest, context: _Context
    ) -> pb.SetAdapterAliasResponse:
        """Points a name of the caller to one of its digests."""
        return await self._catalogue.set_alias(request, await self._claim(context, Role.AUTHOR))

    async def DeleteAdapter(
        self, request: pb.DeleteAdapterRequest, context: _Context
    ) -> pb.DeleteAdapterResponse:
        """Removes an alias or a digest of the caller."""
        return await self._catalogue.delete(request, await self._claim(context, Role.AUTHOR))

    async def _while_active(
        self, caller: Caller, messages: AsyncIterable[MessageT]
    ) -> AsyncIterator[MessageT]:
        """Hands on what comes while the caller's key, or certificate, holds.

        Asked again at the end: an upload is complete only then. Raises UnauthenticatedError.
        """
        async for message in messages:
            self._door.require_active(caller)
            yield message
        self._door.require_active(caller)

    async def _claim(self, context: _Context, role: Role = Role.USER) -> Sealed:
        return (await self._authenticate(context, role)).claim

    async def _authenticate(self, context: _Context, role: Role = Role.USER) -> Caller:
        """The caller. Raises UnauthenticatedError, PermissionDeniedError below the role."""
        caller = await self._door.authenticate(
            context.invocation_metadata() or (),
            peer=context.peer(),
            certificate_uris=peer_uris(context.auth_context()),
        )
        require(caller, role)
        return caller


async def _read(stream: GenerationStream, context: _Context) -> AsyncIterator[pb.GenerationEvent]:
    # A client that leaves while it is being written to never resumes this generator; the end
    # of the call must not wait for the generator to be collected.
    context.add_done_callback(lambda _: stream.cancel())  # type: ignore[arg-type]
    try:
        async for event in stream:
            yield event
    finally:
        stream.cancel()
        stream.bind_log_context()


def _log_registered(registered: pb.RegisterAdapterResponse) -> None:
    structlog.contextvars.bind_contextvars(adapters=[registered.adapter.digest])
