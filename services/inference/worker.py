"""A whole worker around a back end: engine, adapters, health and the gRPC face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.inference_service_pb2_grpc import add_InferenceServiceServicer_to_server
from services.chassis.base_model import BaseModel
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer
from services.chassis.server import ServiceHost
from services.chassis.settings import ConfigError
from services.inference.adapter_loading import AdapterLoading
from services.inference.adapter_source import AdapterSource
from services.inference.backends.base import Backend
from services.inference.chat_template import ChatTemplate
from services.inference.config import PREFIX, InferenceConfig
from services.inference.constraints.compiler import ConstraintCompiler
from services.inference.engine.adapter_slots import SlotBudgetError
from services.inference.engine.engine import Engine
from services.inference.engine.fetched_adapter import FetchedAdapter
from services.inference.engine_config import make_engine_config
from services.inference.prompt_encoder import PromptEncoder
from services.inference.readiness import ReadinessWatch, generate_one_token
from services.inference.refusals import Refusals
from services.inference.residency import ResidencyReporter
from services.inference.residency_events import ResidencyEvents
from services.inference.servicer import InferenceServicer
from services.inference.serving_worker import EXIT_ENGINE_DIED, Worker
from services.inference.spare_memory import collect_garbage
from services.inference.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from services.inference.metrics import WorkerMetrics

SERVICE_NAME = "edgelora.v1.InferenceService"


@asynccontextmanager
async def serving(config: InferenceConfig, backend: Backend) -> AsyncIterator[Worker[Engine]]:
    """Serves on `config.address`; ready once a token was made, from then on while steps end.

    Raises ConfigError when the model directory can not be used.
    """
    try:
        model = BaseModel.load(config.model_directory)
        tokenizer = TextTokenizer.load(config.model_directory)
        template = ChatTemplate.load(config.model_directory, tokenizer.control_tokens)
        engine_config = make_engine_config(
            config, model, tokenizer, backend.kv_bytes_per_token(config.model_directory)
        )
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error
    metrics = _metrics(config, model)
    engine = Engine(backend, engine_config, observe_step=metrics.note_step if metrics else None)
    if metrics:
        metrics.watch(engine)
    max_sequence_tokens = min(model.max_context_tokens, engine_config.capacity_tokens)
    encoder = PromptEncoder(tokenizer, template, max_sequence_tokens)
    constraints = ConstraintCompiler(tokenizer, model.vocab_size, engine_config.eos_token_ids)
    refusals = Refusals(config.refusal_hold_s)
    engine_died = asyncio.Event()
    host = ServiceHost([config.address], observe=metrics.calls.note_end if metrics else None)
    async with (
        metrics.serving() if metrics else nullcontext(),
        open_channel(config.store_address) as channel,
    ):
        source = AdapterSource(
            channel,
            model,
            max_rank=config.max_lora_rank,
            timeout_s=config.fetch_timeout_s,
            shared_directory=config.shared_blob_directory,
        )
        events = ResidencyEvents()
        loading = AdapterLoading(
            engine,
            source,
            refusals,
            events,
            on_residency_changed=lambda: reporter.note_change(),
            on_engine_died=engine_died.set,
        )
        reporter = ResidencyReporter(
            channel,
            engine,
            refusals,
            events,
            worker=config.name,
            task=Task.TASK_GENERATE,
            interval_s=config.residency_interval_s,
            on_warm_ups=loading.warm_up,
        )
        servicer = InferenceServicer(
            engine,
            encoder,
            constraints,
            loading,
            model,
            Sealer(config.seal_key),
            token_bytes=tokenizer.token_bytes,
            worker=config.name,
            backend=backend.name,
            kv_cache_dtype=config.kv_cache_dtype_of(backend.name),
            max_sequence_tokens=max_sequence_tokens,
            max_lora_rank=config.max_lora_rank,
            observer=metrics.vllm if metrics else None,
        )
        host.add(add_InferenceServiceServicer_to_server, servicer, SERVICE_NAME)
        watch = ReadinessWatch(engine, host.set_ready, stall_limit_s=config.stall_limit_s)
        tasks: list[asyncio.Task[None]] = []
        try:
            async with host.serving():
                await _start(engine, loading)
                await generate_one_token(engine, engine_config.canary_token_ids)
                collect_garbage()
                tasks += [asyncio.create_task(reporter.run()), asyncio.create_task(watch.run())]
                yield Worker(host, engine, engine_died, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await loading.close()
            await engine.stop()
            source.close()
            encoder.close()
            await constraints.close()


def _metrics(config: InferenceConfig, model: BaseModel) -> WorkerMetrics | None:
    if config.metrics_address is None:
        return None
    from services.inference.metrics import WorkerMetrics  # takes 4 MB

    return WorkerMetrics(
        config.metrics_address, vllm_model=model.name if config.has_vllm_metrics else None
    )


async def _start(engine: Engine, loading: AdapterLoading[FetchedAdapter]) -> None:
    try:
        await engine.start(loading)
    except SlotBudgetError as error:
        raise ConfigError(f"{PREFIX}ADAPTER_MEMORY_SIZE: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error


async def serve_until_end(config: InferenceConfig, backend: Backend) -> None:
    """Serves until SIGTERM or SIGINT. Raises SystemExit with status 70 when the engine dies."""
    async with serving(config, backend) as worker:
        is_dead = await worker.wait_for_end()
    if is_dead:
        raise SystemExit(EXIT_ENGINE_DIED)
