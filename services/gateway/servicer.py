"""Translates the GatewayService protos to the domain and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import structlog

from edgelora.errors import ServiceUnavailableError
from edgelora.v1 import adapter_store_service_pb2 as store_pb
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1 import gateway_service_pb2_grpc as rpc
from edgelora.v1.generation_pb2 import Conversation, GenerationInput, PriorityClass
from services.chassis.channel import call_metadata
from services.chassis.generation_limits import DEFAULT_MAX_TOKENS
from services.gateway import token_estimate, validation
from services.gateway.authentication import Authentication, Caller
from services.gateway.deadline import Deadlines
from services.gateway.generation import Generations
from services.gateway.generation_run import GenerationRequest
from services.gateway.node_status import NodeStatus
from services.gateway.quota import Quota
from services.gateway.readiness import Readiness
from services.gateway.upload import UploadRelay
from services.gateway.upstream import Upstream, errors_of

_Context = grpc.aio.ServicerContext[Any, Any]
_STORE = "adapter store"
_STORE_S = 10.0
_CLAIM_SLACK_S = 30.0


class GatewayServicer(rpc.GatewayServiceServicer):
    """The gRPC face of the gateway."""

    def __init__(
        self,
        *,
        authentication: Authentication,
        generations: Generations,
        uploads: UploadRelay,
        quota: Quota,
        upstream: Upstream,
        readiness: Readiness,
        status: NodeStatus,
        deadlines: Deadlines,
    ) -> None:
        self._authentication = authentication
        self._generations = generations
        self._uploads = uploads
        self._quota = quota
        self._upstream = upstream
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

    async def ListAdapters(
        self, request: pb.ListAdaptersRequest, context: _Context
    ) -> pb.ListAdaptersResponse:
        """Lists the caller's adapters."""
        caller = await self._authenticate(context)
        store = await self._upstream.store()
        with errors_of(_STORE):
            found = await store.ListAdapters(
                store_pb.AdapterStoreServiceListAdaptersRequest(claim=caller.claim),
                timeout=_STORE_S,
                metadata=call_metadata(),
            )
        return pb.ListAdaptersResponse(adapters=found.adapters, aliases=found.aliases)

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
        structlog.contextvars.bind_contextvars(adapters=[registered.adapter.digest])
        return pb.RegisterAdapterResponse(
            adapter=registered.adapter,
            alias=registered.alias if registered.HasField("alias") else None,
            is_new=registered.is_new,
        )

    async def SetAdapterAlias(
        self, request: pb.SetAdapterAliasRequest, context: _Context
    ) -> pb.SetAdapterAliasResponse:
        """Points a name of the caller to one of its digests."""
        caller = await self._authenticate(context)
        validation.check_set_alias(request)
        wanted = store_pb.AdapterStoreServiceSetAdapterAliasRequest(
            claim=caller.claim, name=request.name, digest=request.digest
        )
        if request.HasField("expected_generation"):
            wanted.expected_generation = request.expected_generation
        store = await self._upstream.store()
        with errors_of(_STORE):
            stored = await store.SetAdapterAlias(wanted, timeout=_STORE_S, metadata=call_metadata())
        return pb.SetAdapterAliasResponse(alias=stored.alias)

    async def DeleteAdapter(
        self, request: pb.DeleteAdapterRequest, context: _Context
    ) -> pb.DeleteAdapterResponse:
        """Removes an alias or a digest of the caller."""
        caller = await self._authenticate(context)
        validation.check_adapter_name(request.adapter, "adapter")
        store = await self._upstream.store()
        with errors_of(_STORE):
            removed = await store.DeleteAdapter(
                store_pb.AdapterStoreServiceDeleteAdapterRequest(
                    claim=caller.claim, adapter=request.adapter
                ),
                timeout=_STORE_S,
                metadata=call_metadata(),
            )
        return pb.DeleteAdapterResponse(
            removed_aliases=removed.removed_aliases, removed_digest=removed.removed_digest
        )

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
