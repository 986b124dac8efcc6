"""Translates the GatewayService protos to the domain and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import structlog

from edgelora.adapter_names import AUTO
from edgelora.errors import ServiceUnavailableError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1 import gateway_service_pb2_grpc as rpc
from edgelora.v1.generation_pb2 import Conversation, GenerationInput, PriorityClass
from edgelora.v1.ticket_pb2 import Sealed
from services.chassis.generation_limits import DEFAULT_MAX_TOKENS
from services.gateway import token_estimate, validation
from services.gateway.adapter_catalogue import AdapterCatalogue
from services.gateway.authentication import Authentication, Caller
from services.gateway.deadline import Deadlines
from services.gateway.generation import Generations
from services.gateway.generation_run import GenerationRequest
from services.gateway.installation import Installations
from services.gateway.node_status import NodeStatus
from services.gateway.quota import Quota
from services.gateway.readiness import Readiness
from services.gateway.upload import UploadRelay

_Context = grpc.aio.ServicerContext[Any, Any]
_CLAIM_SLACK_S = 30.0
_MAX_ROUTING_CHARS = 4096


class GatewayServicer(rpc.GatewayServiceServicer):
    """The gRPC face of the gateway."""

    def __init__(
        self,
        *,
        authentication: Authentication,
        generations: Generations,
        uploads: UploadRelay,
        installations: Installations,
        catalogue: AdapterCatalogue,
        quota: Quota,
        readiness: Readiness,
        status: NodeStatus,
        deadlines: Deadlines,
    ) -> None:
        self._authentication = authentication
        self._generations = generations
        self._uploads = uploads
        self._installations = installations
        self._catalogue = catalogue
        self._quota = quota
        self._readiness = readiness
        self._status = status
        self._deadlines = deadlines

    async def Generate(
        self, request: pb.GenerateRequest, context: _Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """Streams the continuation of a prompt."""
        caller = await self._authenticate(context)
        validation.check_generate(request)
        wanted = self._request(request, GenerationInput(prompt=request.prompt), [request.prompt], 1)
        async for event in self._run(caller, wanted, context):
            yield pb.GenerateResponse(event=event)

    async def Chat(
        self, request: pb.ChatRequest, context: _Context
    ) -> AsyncIterator[pb.ChatResponse]:
        """Streams the answer to a conversation."""
        caller = await self._authenticate(context)
        validation.check_chat(request)
        wanted = self._request(
            request,
            GenerationInput(conversation=Conversation(messages=request.messages)),
            token_estimate.conversation_texts(request.messages),
            len(request.messages),
        )
        async for event in self._run(caller, wanted, context):
            yield pb.ChatResponse(event=event)

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
        caller = await self._authenticate(context)
        reservation = self._quota.admit(caller.tenant, reserved_tokens=0)
        try:
            registered = await self._uploads.relay(
                aiter(request_iterator),
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
        caller = await self._authenticate(context)
        validation.check_install(request)
        installation = self._installations.start(
            caller,
            request,
            budget_s=self._deadlines.of_installation(context.time_remaining()),
        )
        # As in `_run`: a client that leaves may never resume this generator.
        context.add_done_callback(lambda _: installation.cancel())  # type: ignore[arg-type]
        try:
            async for event in installation.events:
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
        return await self._catalogue.pin(request, await self._claim(context))

    async def SetWarmUp(
        self, request: pb.SetWarmUpRequest, context: _Context
    ) -> pb.SetWarmUpResponse:
        """Switches the forecasts of the caller's habits, or forgets them."""
        return await self._catalogue.set_warm_up(request, await self._claim(context))

    async def SetAdapterAlias(
        self, request: pb.SetAdapterAliasRequest, context: _Context
    ) -> pb.SetAdapterAliasResponse:
        """Points a name of the caller to one of its digests."""
        return await self._catalogue.set_alias(request, await self._claim(context))

    async def DeleteAdapter(
        self, request: pb.DeleteAdapterRequest, context: _Context
    ) -> pb.DeleteAdapterResponse:
        """Removes an alias or a digest of the caller."""
        return await self._catalogue.delete(request, await self._claim(context))

    async def _claim(self, context: _Context) -> Sealed:
        return (await self._authenticate(context)).claim

    async def _authenticate(self, context: _Context) -> Caller:
        caller = await self._authentication.authenticate(
            context.invocation_metadata() or (),
            peer=context.peer(),
            request_id=structlog.contextvars.get_contextvars()["request_id"],
            claim_s=self._deadlines.max_s + _CLAIM_SLACK_S,
        )
        structlog.contextvars.bind_contextvars(tenant_id=caller.tenant.tenant_id)
        return caller

    def _request(
        self,
        request: pb.GenerateRequest | pb.ChatRequest,
        generation_input: GenerationInput,
        texts: Sequence[str],
        num_messages: int,
    ) -> GenerationRequest:
        model = self._readiness.model
        if model is None:
            raise ServiceUnavailableError(
                "no model has been loaded yet: try again in a moment", retry_after_s=1.0
            )
        context_tokens = model.max_context_tokens
        stop = request.options.stop
        max_tokens = stop.max_tokens if stop.HasField("max_tokens") else DEFAULT_MAX_TOKENS
        max_tokens = min(max_tokens, context_tokens)
        likely = token_estimate.likely_prompt_tokens(texts, num_messages)
        most = token_estimate.most_prompt_tokens(texts, num_messages)
        return GenerationRequest(
            input=generation_input,
            adapters=request.adapters,
            options=request.options,
            priority=request.priority or PriorityClass.PRIORITY_CLASS_INTERACTIVE,
            max_output_tokens=max_tokens,
            estimated_tokens=min(likely + max_tokens, context_tokens),
            reserved_tokens=min(most + max_tokens, context_tokens),
            user=request.user,
            routing_text=_routing_text(request, texts[-1]),
            degradation=request.degradation,
        )

    async def _run(
        self, caller: Caller, wanted: GenerationRequest, context: _Context
    ) -> AsyncIterator[pb.GenerationEvent]:
        stream = self._generations.start(
            caller, wanted, budget_s=self._deadlines.of_generation(context.time_remaining())
        )
        # A client that leaves while it is being written to never resumes this generator; the end
        # of the call must not wait for the generator to be collected.
        context.add_done_callback(lambda _: stream.cancel())  # type: ignore[arg-type]
        try:
            async for event in stream:
                yield event
        finally:
            stream.cancel()
            stream.bind_log_context()


def _routing_text(request: pb.GenerateRequest | pb.ChatRequest, question: str) -> str:
    """The end of what the user asked; empty where the request names its adapters."""
    is_auto = any(selection.adapter == AUTO for selection in request.adapters)
    return question.strip()[-_MAX_ROUTING_CHARS:] if is_auto else ""


def _log_registered(registered: pb.RegisterAdapterResponse) -> None:
    structlog.contextvars.bind_contextvars(adapters=[registered.adapter.digest])
