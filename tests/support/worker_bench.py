"""A whole worker over a real unix socket: the stand-in back end and a stand-in store by default."""

from __future__ import annotations

import gc
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterStrength, ResolvedAdapter
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    Conversation,
    GenerationInput,
    GenerationOptions,
    SamplingParams,
    StopConditions,
)
from edgelora.v1.inference_service_pb2_grpc import InferenceServiceStub
from edgelora.v1.ticket_pb2 import Sealed, Ticket
from services.chassis.claims import seal_claim, seal_ticket
from services.chassis.sealing import Sealer, boot_clock_s
from services.inference.backends.base import Backend
from services.inference.config import InferenceConfig
from services.inference.engine.engine import Engine
from services.inference.running_requests import RunningRequest
from services.inference.serving_worker import Worker
from services.inference.worker import serving
from tests.support.adapter_shelf import AdapterShelf, host_shelf
from tests.support.small_tokenizer import save_tokenizer, small_tokenizer
from tests.support.stand_in_backend import StandInBackend, stand_in_model

KEY = b"a seal key of at least 32 bytes!"
WORKER = "w0"
BLOCK_SIZE = 4


@dataclass
class Answer:
    """Everything one call gave."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    deltas: list[Any] = field(default_factory=list)
    started: Any = None
    finished: Any = None
    engine_times_s: list[float] = field(default_factory=list)
    """As they came, each of all the work before it."""


def make_ticket(sealer: Sealer, adapters: Mapping[str, float] = {}, **changes: Any) -> Sealed:
    """A ticket as the scheduler seals it; `adapters` are strengths by digest."""
    values: dict[str, Any] = {
        "ticket_id": uuid.uuid4().hex,
        "tenant_id": "tenant",
        "request_id": "request",
        "worker": WORKER,
        "priority": 1,
        "max_output_tokens": 100_000,
        "expires_at_boot_s": boot_clock_s() + 60,
        "adapters": [
            ResolvedAdapter(digest=digest, strength=strength)
            for digest, strength in adapters.items()
        ],
    }
    return seal_ticket(sealer, Ticket(**(values | changes)))


def make_request(ticket: Sealed, prompt: str | list[tuple[str, str]], **options: Any) -> Any:
    """A request; `options` are fields of sampling and stop conditions, logprobs, a constraint, the
    tools of a conversation, its session, and strengths by digest that were changed."""
    session = options.pop("session", "")
    strengths = [
        AdapterStrength(digest=digest, strength=strength)
        for digest, strength in options.pop("strengths", {}).items()
    ]
    tools = options.pop("tools", None)
    constraint = options.pop("constraint", None)
    if isinstance(prompt, str):
        source = GenerationInput(prompt=prompt)
    else:
        messages = [ChatMessage(role=role, content=content) for role, content in prompt]
        source = GenerationInput(conversation=Conversation(messages=messages, tools=tools))
    made = GenerationOptions(constraint=constraint)
    for name, value in options.items():
        if name == "logprobs":
            made.logprobs = value
        elif name in SamplingParams.DESCRIPTOR.fields_by_name:
            setattr(made.sampling, name, value)
        elif isinstance(value, list):
            getattr(made.stop, name).extend(value)
        else:
            assert name in StopConditions.DESCRIPTOR.fields_by_name
            setattr(made.stop, name, value)
    return pb.InferenceServiceGenerateRequest(
        ticket=ticket, input=source, options=made, session=session, strengths=strengths
    )


class WorkerBench:
    """What a test needs of a running worker."""

    def __init__(
        self, worker: Worker[Engine], backend: Any, shelf: AdapterShelf, channel: grpc.aio.Channel
    ) -> None:
        self.worker = worker
        self.engine = worker.engine
        self.backend = backend
        self.shelf = shelf
        self.channel = channel
        self.stub: Any = InferenceServiceStub(channel)
        self.sealer = Sealer(KEY)

    def call(
        self,
        prompt: str | list[tuple[str, str]] = "please sing",
        adapters: Mapping[str, float] = {},
        *,
        ticket: Sealed | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Opens a call; tokens go on to max_tokens unless told otherwise."""
        ticket = ticket or make_ticket(self.sealer, adapters)
        options = {"ignore_eos": True, "max_tokens": 8} | options
        return self.stub.Generate(make_request(ticket, prompt, **options), timeout=timeout)

    async def generate(self, *arguments: Any, **options: Any) -> Answer:
        """Reads a whole call."""
        answer = Answer()
        async for response in self.call(*arguments, **options):
            if response.HasField("engine_time"):
                answer.engine_times_s.append(response.engine_time.ToNanoseconds() / 1e9)
            match response.WhichOneof("event"):
                case "started":
                    assert answer.started is None
                    assert not answer.deltas
                    answer.started = response.started
                case "delta":
                    answer.deltas.append(response.delta)
                    answer.text += response.delta.text
                    answer.token_ids += response.delta.token_ids
                case "finished":
                    answer.finished = response.finished
        assert answer.started is not None and answer.finished is not None
        return answer

    def claim(self, tenant_id: str = "tenant", lasts_s: float = 60.0) -> Sealed:
        """Who is asking, as the gateway seals it."""
        return seal_claim(
            self.sealer,
            tenant_id=tenant_id,
            request_id="another request",
            expires_at_boot_s=boot_clock_s() + lasts_s,
        )

    async def set_strength(
        self,
        strength: float,
        *,
        adapter: str = "",
        request_id: str = "request",
        claim: Sealed | None = None,
    ) -> dict[str, float]:
        """Changes a running request; returns the strengths in force by digest."""
        response = await self.stub.SetStrength(
            pb.InferenceServiceSetStrengthRequest(
                claim=claim or self.claim(),
                request_id=request_id,
                adapter=adapter,
                strength=strength,
            )
        )
        return {each.digest: each.strength for each in response.adapters}

    async def forget(self, session: str = "", claim: Sealed | None = None) -> int:
        """Drops sessions; returns how many."""
        request = pb.ForgetSessionsRequest(claim=claim or self.claim(), session=session)
        return int((await self.stub.ForgetSessions(request)).num_forgotten)

    async def status(self) -> Any:
        """The engine's counts."""
        return await self.stub.GetEngineStatus(pb.GetEngineStatusRequest())

    async def rest(self) -> Any:
        """Waits until nothing is held any more but for sessions, and returns the counts."""
        while True:
            status = await self.status()
            held = status.num_running + status.num_waiting + status.num_adapter_references
            num_held = status.num_kv_blocks - status.num_free_kv_blocks
            is_free = num_held * BLOCK_SIZE == status.num_session_tokens
            if held == 0 and is_free and self.engine.num_open_streams == 0:
                return status


async def all_forgotten(bench: WorkerBench) -> None:
    """Waits until no request is known any more; a call's task ends after its client's."""

    def is_of_bench(each: object) -> bool:
        # By type: looking at another's __class__ may run its code. Those of other benches stay in
        # the tracebacks of tests that failed.
        return type(each) is RunningRequest and each._engine is bench.engine

    while any(map(is_of_bench, gc.get_objects())):
        await bench.status()
        gc.collect()


def save_stand_in_model(directory: Path) -> int:
    """Writes a prepared model directory for the stand-in back end; returns its vocabulary size."""
    save_tokenizer(directory)
    vocab_size = small_tokenizer().get_vocab_size()
    stand_in_model(vocab_size).save(directory)
    return vocab_size


def worker_environ(directory: Path, model: Path, **settings: str) -> dict[str, str]:
    """The variables of a worker whose socket, key and store lie in a directory."""
    key_file = directory / "seal.key"
    key_file.write_bytes(KEY)
    values = {
        "ADDRESS": f"unix:{directory}/worker.sock",
        "NAME": WORKER,
        "MODEL_DIRECTORY": str(model),
        "STORE_ADDRESS": f"unix:{directory}/store.sock",
        "SEAL_KEY_FILE": str(key_file),
        "MAX_LORAS": "2",
        "MAX_LORA_RANK": "16",
        "MAX_NUM_SEQS": "4",
        "BLOCK_SIZE": str(BLOCK_SIZE),
        "KV_CACHE_SIZE": "256KiB",
        "THREADS": "1",
    }
    return {f"EDGELORA_INFERENCE_{name}": value for name, value in (values | settings).items()}


@asynccontextmanager
async def worker_bench(
    *,
    backend: Backend | None = None,
    model: Path | None = None,
    is_shared: bool = False,
    **settings: str,
) -> AsyncIterator[WorkerBench]:
    """Starts store and worker, and stops them."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        blobs = directory / "blobs"
        blobs.mkdir()
        if model is None:
            vocab_size = save_stand_in_model(directory)
            model, backend = directory, backend or StandInBackend(vocab_size)
        assert backend is not None
        if is_shared:
            settings["SHARED_BLOB_DIRECTORY"] = str(blobs)
        config = InferenceConfig.from_env(worker_environ(directory, model, **settings))
        shelf = AdapterShelf(Sealer(KEY), blobs if is_shared else None)
        host = host_shelf(shelf, config.store_address)
        options = [("grpc.default_authority", "localhost")]
        async with (
            host.serving(),
            serving(config, backend) as worker,
            grpc.aio.insecure_channel(config.address, options=options) as channel,
        ):
            yield WorkerBench(worker, backend, shelf, channel)
