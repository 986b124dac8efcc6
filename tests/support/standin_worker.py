"""A stand-in for an inference worker, written from its proto: it says a script and runs no model.

As a process: `python -m tests.support.standin_worker ADDRESS SEAL_KEY_FILE HOLD_AFTER`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path

from edgelora.errors import EdgeLoraError
from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterStrength
from edgelora.v1.generation_pb2 import Delta, FinishReason, TokenLogprob, TopLogprob, Usage
from edgelora.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from edgelora.v1.ticket_pb2 import RunLimits, Ticket
from services.chassis.claims import open_claim, open_run_limits, open_ticket
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost

NUM_PROMPT_TOKENS = 7


@dataclass
class WorkerCall:
    """One call of Generate as the worker saw it."""

    ticket: Ticket
    request: pb.InferenceServiceGenerateRequest
    time_remaining_s: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    was_finished: bool = False
    num_sent: int = 0


class StandinWorker(InferenceServiceServicer):
    """Says the words of `script` in every call, and does what else a test has set."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.script: list[str] | None = ["Hello", " there", "."]
        """None goes on for ever."""
        self.next_scripts: list[list[str]] = []
        """Said in turn, before `script`."""
        self.hold_after: int | None = None
        """Wait for `go_on` before the delta of this number."""
        self.go_on = asyncio.Event()
        self.failure: EdgeLoraError | None = None
        """Raised instead of the first delta."""
        self.ends_without_finished = False
        self.finish_reason = FinishReason.FINISH_REASON_STOP
        self.max_context_tokens = 2048
        self.calls: asyncio.Queue[WorkerCall] = asyncio.Queue()
        """Every call, when it began."""
        self.num_open = 0
        self.run_limits: asyncio.Queue[RunLimits] = asyncio.Queue()
        """Everything it was told about how much of itself it may use."""
        self.engine_ms: int | None = None
        """What each delta says that the request has cost so far, as often as deltas came."""
        self.refusal: EdgeLoraError | None = None
        """Raised by what changes a generation or forgets sessions."""
        self.strengths: list[pb.InferenceServiceSetStrengthRequest] = []
        self.sessions: list[pb.ForgetSessionsRequest] = []

    async def Generate(self, request, context):
        ticket = open_ticket(self._sealer, request.ticket, boot_clock_s())
        call = WorkerCall(ticket, request, context.time_remaining())
        self.num_open += 1
        self.calls.put_nowait(call)

        def end(_):
            self.num_open -= 1
            call.ended.set()

        context.add_done_callback(end)
        await context.send_initial_metadata(())
        if self.failure is not None:
            raise self.failure
        yield pb.InferenceServiceGenerateResponse(
            started=pb.Started(num_prompt_tokens=NUM_PROMPT_TOKENS)
        )
        script = self.next_scripts.pop(0) if self.next_scripts else self.script
        words = itertools.repeat("x" * 1000) if script is None else script
        for index, word in enumerate(words):
            if index == self.hold_after:
                await self.go_on.wait()
            delta = Delta(text=word, token_ids=[index])
            if request.options.HasField("logprobs"):
                delta.logprobs.append(_logprob(index, word, request.options.logprobs))
            response = pb.InferenceServiceGenerateResponse(delta=delta)
            if self.engine_ms is not None:
                response.engine_time.FromMilliseconds(self.engine_ms * (index + 1))
            yield response
            call.num_sent += 1
        if self.hold_after is not None and self.hold_after >= call.num_sent:
            await self.go_on.wait()
        if self.ends_without_finished:
            return
        usage = Usage(num_prompt_tokens=NUM_PROMPT_TOKENS, num_output_tokens=call.num_sent)
        call.was_finished = True
        yield pb.InferenceServiceGenerateResponse(
            finished=pb.Finished(finish_reason=self.finish_reason, usage=usage)
        )

    async def SetStrength(self, request, context):
        open_claim(self._sealer, request.claim, boot_clock_s())
        if self.refusal is not None:
            raise self.refusal
        self.strengths.append(request)
        strength = AdapterStrength(digest=request.adapter, strength=request.strength)
        return pb.InferenceServiceSetStrengthResponse(adapters=[strength])

    async def ForgetSessions(self, request, context):
        open_claim(self._sealer, request.claim, boot_clock_s())
        if self.refusal is not None:
            raise self.refusal
        self.sessions.append(request)
        return pb.ForgetSessionsResponse(num_forgotten=2)

    async def SetRunLimits(self, request, context):
        limits = open_run_limits(self._sealer, request.limits, boot_clock_s())
        self.run_limits.put_nowait(limits)
        return pb.SetRunLimitsResponse()

    async def GetEngineStatus(self, request, context):
        return pb.GetEngineStatusResponse(num_running=self.num_open)

    async def GetModel(self, request, context):
        return pb.GetModelResponse(
            name="stand-in",
            digest="sha256:" + "b" * 64,
            max_context_tokens=self.max_context_tokens,
            vocab_size=100,
            backend="script",
            max_lora_rank=64,
            family="script",
            num_layers=2,
            num_parameters=134_000_000,
            weights_bytes=96_000_000,
        )


def _logprob(index: int, word: str, num_top: int) -> TokenLogprob:
    """As if the word were a token of probability 1/2, and the next likeliest ones its shadows."""
    top = [
        TopLogprob(token_id=index, logprob=-0.5 - place, token=f"{word}{'~' * place}".encode())
        for place in range(num_top)
    ]
    return TokenLogprob(token_id=index, logprob=-0.5, token=word.encode(), top=top)


def host_worker(worker: StandinWorker, address: str) -> ServiceHost:
    """A host that serves the stand-in."""
    host = ServiceHost([address])
    host.add(add_InferenceServiceServicer_to_server, worker, "edgelora.v1.InferenceService")
    return host


async def main(address: str, key: bytes, hold_after: int) -> None:
    """Serves until told to stop; holds for ever after so many words."""
    worker = StandinWorker(Sealer(key))
    worker.script = ["word"] * (hold_after + 1)
    worker.hold_after = hold_after
    host = host_worker(worker, address)
    async with host.serving():
        await host.set_ready(True)
        await host.wait_for_stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes(), int(sys.argv[3])))
