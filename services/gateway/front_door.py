"""What every door does with a request once it is a message: who asks, is it right, start it."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from edgelora.adapter_names import AUTO
from edgelora.errors import NotFoundError, ServiceUnavailableError
from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterStrength
from edgelora.v1.encoder_service_pb2 import GetEncoderResponse
from edgelora.v1.generation_pb2 import (
    Conversation,
    GenerationInput,
    GenerationOptions,
    PriorityClass,
)
from edgelora.v1.inference_service_pb2 import GetModelResponse
from services.chassis.generation_limits import DEFAULT_MAX_TOKENS, check_session
from services.chassis.tool_limits import may_call
from services.chassis.unserved import NO_DECODER, NO_ENCODER
from services.gateway import token_estimate, validation
from services.gateway.authentication import Authentication, Caller, Metadata
from services.gateway.deadline import Deadlines
from services.gateway.encoding.answers import classify_response, embed_response
from services.gateway.encoding.encodings import Encodings
from services.gateway.encoding.request import EncodingRequest, classification, embedding
from services.gateway.encoding.run import Encoded
from services.gateway.generation import Generations, GenerationStream
from services.gateway.generation_run import GenerationRequest
from services.gateway.readiness import Readiness
from services.gateway.roles import Role, require
from services.gateway.session_memory import SessionMemory

_CLAIM_SLACK_S = 30.0
_MAX_ROUTING_CHARS = 4096


BaseModel = GetModelResponse | GetEncoderResponse
"""One that generates, or one that encodes."""


class FrontDoor:
    """Shared by the gRPC servicer and the HTTP APIs, so that no door is wider than another."""

    def __init__(
        self,
        *,
        authentication: Authentication,
        generations: Generations,
        encodings: Encodings,
        readiness: Readiness,
        deadlines: Deadlines,
        memory: SessionMemory,
    ) -> None:
        self._authentication = authentication
        self._generations = generations
        self._encodings = encodings
        self._readiness = readiness
        self._deadlines = deadlines
        self._memory = memory

    @property
    def model(self) -> GetModelResponse:
        """The base model that generates.

        Raises NotFoundError where the node has none, ServiceUnavailableError until its worker was
        ready once.
        """
        if not self.has_decoder:
            raise NotFoundError(NO_DECODER)
        model = self._readiness.model
        if model is None:
            raise _not_loaded()
        return model

    @property
    def encoder(self) -> GetEncoderResponse:
        """The base model that classifies and embeds. Raises as `model`."""
        if not self.has_encoder:
            raise NotFoundError(NO_ENCODER)
        encoder = self._readiness.encoder
        if encoder is None:
            raise _not_loaded()
        return encoder

    @property
    def has_decoder(self) -> bool:
        """Whether a worker of this node generates."""
        return "inference" in self._readiness.services

    @property
    def has_encoder(self) -> bool:
        """Whether a worker of this node classifies and embeds."""
        return "encoder" in self._readiness.services

    @property
    def decoder_name(self) -> str:
        """Name of the base model that generates; empty while none is known."""
        return self._readiness.model.name if self._readiness.model else ""

    @property
    def encoder_name(self) -> str:
        """Name of the base model that encodes; empty while none is known."""
        return self._readiness.encoder.name if self._readiness.encoder else ""

    @property
    def models(self) -> Sequence[BaseModel]:
        """The base models of this node. Raises ServiceUnavailableError until a worker was ready."""
        models = (self._readiness.model, self._readiness.encoder)
        known = [model for model in models if model is not None]
        if not known:
            raise _not_loaded()
        return known

    @property
    def is_ready(self) -> bool:
        """Whether some request could start now."""
        return self._readiness.is_ready

    async def authenticate(
        self, credentials: Metadata, *, peer: str, certificate_uris: Sequence[str] = ()
    ) -> Caller:
        """Returns the caller, and adds it to the log line of the call.

        `credentials`: only `authorization` is read. `certificate_uris`: see `Authentication`.
        Raises UnauthenticatedError.
        """
        caller = await self._authentication.authenticate(
            credentials,
            certificate_uris=certificate_uris,
            peer=peer,
            request_id=structlog.contextvars.get_contextvars()["request_id"],
            claim_s=self._deadlines.max_s + _CLAIM_SLACK_S,
        )
        structlog.contextvars.bind_contextvars(tenant_id=caller.tenant.tenant_id)
        return caller

    def require_active(self, caller: Caller) -> None:
        """Raises UnauthenticatedError when what proved the caller holds no longer."""
        self._authentication.require_active(caller)

    def generate(
        self, caller: Caller, request: pb.GenerateRequest, *, remaining_s: float | None
    ) -> GenerationStream:
        """Starts the continuation of a prompt; `remaining_s` is the client's own deadline.

        The reader cancels the stream when it stops reading, however it ends.
        Raises InvalidRequestError, PermissionDeniedError, QuotaExceededError and
        ServiceUnavailableError.
        """
        validation.check_generate(request)
        _check_trust(caller, request.options)
        wanted = self._wanted(request, GenerationInput(prompt=request.prompt), [request.prompt], 1)
        return self._start(caller, wanted, remaining_s)

    def chat(
        self, caller: Caller, request: pb.ChatRequest, *, remaining_s: float | None
    ) -> GenerationStream:
        """Starts the answer to a conversation; see `generate`."""
        validation.check_chat(request)
        _check_trust(caller, request.options)
        conversation = Conversation(messages=request.messages, tools=request.tools)
        wanted = self._wanted(
            request,
            GenerationInput(conversation=conversation),
            token_estimate.conversation_texts(conversation),
            token_estimate.num_frames(conversation),
        )
        return self._start(caller, wanted, remaining_s)

    async def classify(
        self, caller: Caller, request: pb.ClassifyRequest, *, remaining_s: float | None
    ) -> pb.ClassifyResponse:
        """Classifies texts; `remaining_s` is the client's own deadline. Cancel it to end it.

        Raises InvalidRequestError, QuotaExceededError, NotFoundError where there is no encoder, and
        what scheduler and worker raise.
        """
        wanted = classification(request, self.encoder.max_context_tokens)
        encoded = await self._encode(caller, wanted, remaining_s)
        return classify_response(wanted, encoded, caller.request_id)

    async def embed(
        self, caller: Caller, request: pb.EmbedRequest, *, remaining_s: float | None
    ) -> pb.EmbedResponse:
        """Embeds texts; see `classify`."""
        encoder = self.encoder
        wanted = embedding(request, encoder.max_context_tokens)
        encoded = await self._encode(caller, wanted, remaining_s)
        return embed_response(wanted, encoded, caller.request_id, encoder.name)

    async def set_strength(
        self, caller: Caller, request_id: str, adapter: str, strength: float
    ) -> Sequence[AdapterStrength]:
        """Changes the strength of an adapter of a running generation from the next token on.

        `adapter` is a digest or the alias the request used; it may be empty where there is one.
        Returns the strengths in force. Raises InvalidRequestError, NotFoundError for a generation
        that is unknown, another tenant's or over, and ServiceUnavailableError.
        """
        validation.check_set_strength(request_id, adapter, strength)
        return await self._generations.set_strength(caller, request_id, adapter, strength)

    async def forget_session(self, caller: Caller, session: str) -> int:
        """Drops what the node keeps of one of the caller's conversations, or of all (empty).

        Returns how many were dropped. Raises InvalidRequestError, and ServiceUnavailableError
        when a worker did not answer: it may keep some still.
        """
        check_session(session)
        return await self._memory.forget(caller.claim, session)

    async def _encode(
        self, caller: Caller, wanted: EncodingRequest, remaining_s: float | None
    ) -> Encoded:
        budget_s = self._deadlines.of_answer(remaining_s)
        return await self._encodings.run(caller, wanted, budget_s=budget_s)

    def _start(
        self, caller: Caller, wanted: GenerationRequest, remaining_s: float | None
    ) -> GenerationStream:
        budget_s = self._deadlines.of_answer(remaining_s)
        return self._generations.start(caller, wanted, budget_s=budget_s)

    def _wanted(
        self,
        request: pb.GenerateRequest | pb.ChatRequest,
        generation_input: GenerationInput,
        texts: Sequence[str],
        num_messages: int,
    ) -> GenerationRequest:
        context_tokens = self.model.max_context_tokens
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
            routing_text=_routing_text(request, _question(generation_input)),
            degradation=request.degradation,
            may_call_tools=may_call(generation_input.conversation.tools),
            session=request.session,
        )


def _not_loaded() -> ServiceUnavailableError:
    return ServiceUnavailableError(
        "no model has been loaded yet: try again in a moment", retry_after_s=1.0
    )


def _check_trust(caller: Caller, options: GenerationOptions) -> None:
    """Expressions and grammars of a tenant's own are for trusted ones: they can be made to take all
    the time that one step may take."""
    if options.constraint.WhichOneof("kind") in ("regex", "lark"):
        require(caller, Role.TRUSTED)


def _routing_text(request: pb.GenerateRequest | pb.ChatRequest, question: str) -> str:
    """The end of what the user asked; empty where the request names its adapters."""
    is_auto = any(selection.adapter == AUTO for selection in request.adapters)
    return question.strip()[-_MAX_ROUTING_CHARS:] if is_auto else ""


def _question(source: GenerationInput) -> str:
    """What the user said last."""
    if not source.HasField("conversation"):
        return source.prompt
    messages = source.conversation.messages
    return next((each.content for each in reversed(messages) if each.role == "user"), "")
