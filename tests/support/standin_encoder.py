"""A stand-in for an encoder's worker, written from its proto: a text's numbers stand for it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any

from edgelora.errors import EdgeLoraError
from edgelora.v1 import encoder_service_pb2 as pb
from edgelora.v1.encoder_service_pb2_grpc import (
    EncoderServiceServicer,
    add_EncoderServiceServicer_to_server,
)
from edgelora.v1.encoding_pb2 import Classification, Embedding, EncodingUsage, LabelScore
from edgelora.v1.ticket_pb2 import Ticket
from services.chassis.claims import open_ticket
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost

HIDDEN_SIZE = 4
MAX_CONTEXT_TOKENS = 16
LABELS = (("balance", 0.75), ("transfer", 0.2), ("pin", 0.05))


@dataclass
class EncoderCall:
    """One call as the worker saw it."""

    ticket: Ticket
    request: pb.EncoderServiceClassifyRequest | pb.EncoderServiceEmbedRequest
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class StandinEncoder(EncoderServiceServicer):
    """Answers what is set; a text costs as many tokens as it has words, and two more."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.calls: asyncio.Queue[EncoderCall] = asyncio.Queue()
        """Every call, when it began."""
        self.go_on: asyncio.Event | None = None
        """Answers wait for it, where there is one."""
        self.failure: EdgeLoraError | None = None
        """Raised instead of an answer."""
        self.is_out_of_scope = False
        self.num_open = 0

    async def Classify(self, request, context):
        await self._begin(request, context)
        response = pb.EncoderServiceClassifyResponse(usage=usage_of(request.texts))
        response.engine_time.FromMilliseconds(5)
        for _ in request.texts:
            labels = [LabelScore(label=label, probability=share) for label, share in LABELS]
            response.classifications.append(
                Classification(
                    labels=labels[: request.top_labels], is_out_of_scope=self.is_out_of_scope
                )
            )
        return response

    async def Embed(self, request, context):
        await self._begin(request, context)
        response = pb.EncoderServiceEmbedResponse(usage=usage_of(request.texts))
        response.engine_time.FromMilliseconds(5)
        response.embeddings.extend(Embedding(values=vector_of(text)) for text in request.texts)
        return response

    async def GetEncoder(self, request, context):
        return pb.GetEncoderResponse(
            name="stand-in-encoder",
            digest="sha256:" + "e" * 64,
            max_context_tokens=MAX_CONTEXT_TOKENS,
            hidden_size=HIDDEN_SIZE,
            backend="script",
            max_lora_rank=64,
            family="bert",
            num_parameters=22_000_000,
            weights_bytes=22_000_000,
        )

    async def GetEncoderStatus(self, request, context):
        return pb.GetEncoderStatusResponse(num_adapter_slots=8, num_resident_adapters=2)

    async def _begin(self, request: Any, context: Any) -> None:
        call = EncoderCall(open_ticket(self._sealer, request.ticket, boot_clock_s()), request)
        self.num_open += 1
        self.calls.put_nowait(call)

        def end(_):
            self.num_open -= 1
            call.ended.set()

        context.add_done_callback(end)
        if self.failure is not None:
            raise self.failure
        if self.go_on is not None:
            await self.go_on.wait()


def vector_of(text: str) -> list[float]:
    """Of length 1, and another one for another text of another length."""
    angle = 1.0 / len(text)
    return [math.cos(angle), math.sin(angle), 0.0, 0.0]


def usage_of(texts: list[str]) -> EncodingUsage:
    """Words and two more of each text, up to the context."""
    lengths = [len(text.split()) + 2 for text in texts]
    return EncodingUsage(
        num_tokens=sum(min(length, MAX_CONTEXT_TOKENS) for length in lengths),
        num_truncated_texts=sum(length > MAX_CONTEXT_TOKENS for length in lengths),
    )


def host_encoder(encoder: StandinEncoder, address: str) -> ServiceHost:
    """A host that serves the stand-in."""
    host = ServiceHost([address])
    host.add(add_EncoderServiceServicer_to_server, encoder, "edgelora.v1.EncoderService")
    return host
