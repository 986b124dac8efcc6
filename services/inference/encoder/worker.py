"""A whole encoder worker around a back end: engine, adapters, health and the gRPC face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from edgelora.errors import InternalError
from edgelora.v1.encoder_service_pb2_grpc import add_EncoderServiceServicer_to_server
from edgelora.v1.encoding_pb2 import Task
from services.chassis.base_model import BaseModel
from services.chassis.canary import CANARY_TEXT
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer
from services.chassis.server import ServiceHost
from services.chassis.settings import ConfigError
from services.inference.adapter_loading import AdapterLoading
from services.inference.encoder.adapter_source import EncoderAdapterSource
from services.inference.encoder.backend import EncoderBackend, EncoderLimits
from services.inference.encoder.config import PREFIX, EncoderConfig
from services.inference.encoder.engine import EncoderEngine
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.servicer import EncoderServicer
from services.inference.encoder.step_loop import EncoderEngineConfig
from services.inference.encoder.text_queue import StepBudget
from services.inference.encoder.text_reader import TextReader
from services.inference.readiness import ReadinessWatch
from services.inference.refusals import Refusals
from services.inference.residency import ResidencyReporter
from services.inference.residency_events import ResidencyEvents
from services.inference.serving_worker import EXIT_ENGINE_DIED, Worker
from services.inference.spare_memory import collect_garbage

if TYPE_CHECKING:
    from services.inference.encoder.metrics import EncoderMetrics

SERVICE_NAME = "edgelora.v1.EncoderService"


@asynccontextmanager
async def serving(
    config: EncoderConfig, backend: EncoderBackend
) -> AsyncIterator[Worker[EncoderEngine]]:
    """Serves on `config.address`; ready once a text was run, from then on while steps end.

    Raises ConfigError when the model directory or MAX_STEP_TOKENS can not be used.
    """
    try:
        model = BaseModel.load(config.model_directory)
        reader = TextReader.load(config.model_directory, model.max_context_tokens)
        engine_config = _engine_config(config, model, reader)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error
    metrics = _metrics(config)
    engine = EncoderEngine(
        backend, engine_config, observe_step=metrics.note_step if metrics else None
    )
    if metrics:
        metrics.watch(engine)
    refusals = Refusals(config.refusal_hold_s)
    engine_died = asyncio.Event()
    host = ServiceHost([config.address], observe=metrics.calls.note_end if metrics else None)
    async with (
        metrics.serving() if metrics else nullcontext(),
        open_channel(config.store_address) as channel,
    ):
        source = EncoderAdapterSource(
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
            task=Task.TASK_ENCODE,
            interval_s=config.residency_interval_s,
            on_warm_ups=loading.warm_up,
        )
        servicer = EncoderServicer(
            engine,
            reader,
            loading,
            model,
            Sealer(config.seal_key),
            worker=config.name,
            backend=backend.name,
            max_lora_rank=config.max_lora_rank,
        )
        host.add(add_EncoderServiceServicer_to_server, servicer, SERVICE_NAME)
        watch = ReadinessWatch(engine, host.set_ready, stall_limit_s=config.stall_limit_s)
        tasks: list[asyncio.Task[None]] = []
        try:
            async with host.serving():
                await _start(engine, loading)
                await _prove(engine, engine_config)
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
            reader.close()


async def serve_until_end(config: EncoderConfig, backend: EncoderBackend) -> None:
    """Serves until SIGTERM or SIGINT. Raises SystemExit with status 70 when the engine dies."""
    async with serving(config, backend) as worker:
        is_dead = await worker.wait_for_end()
    if is_dead:
        raise SystemExit(EXIT_ENGINE_DIED)


def _engine_config(
    config: EncoderConfig, model: BaseModel, reader: TextReader
) -> EncoderEngineConfig:
    if config.max_step_tokens < model.max_context_tokens:
        raise ConfigError(
            f"{PREFIX}MAX_STEP_TOKENS must be at least {model.max_context_tokens}, the context of "
            f"{model.name}"
        )
    return EncoderEngineConfig(
        model_directory=config.model_directory,
        limits=EncoderLimits(
            max_loras=config.max_loras,
            max_lora_rank=config.max_lora_rank,
            max_step_tokens=config.max_step_tokens,
        ),
        budget=StepBudget(
            max_step_tokens=config.max_step_tokens,
            lower_step_tokens=config.lower_step_tokens,
            aging_s=config.aging_s,
        ),
        canary_token_ids=reader.read_one(CANARY_TEXT).token_ids,
        pooling="cls" if model.pooling == "cls" else "mean",
        max_requests=config.max_requests,
    )


def _metrics(config: EncoderConfig) -> EncoderMetrics | None:
    if config.metrics_address is None:
        return None
    from services.inference.encoder.metrics import EncoderMetrics  # takes 4 MB

    return EncoderMetrics(config.metrics_address)


async def _prove(engine: EncoderEngine, config: EncoderEngineConfig) -> None:
    """Runs a text: a model whose output is no number serves nobody."""
    try:
        await engine.encode([config.canary_token_ids])
    except InternalError as error:
        if not engine.status.num_failed_texts:
            raise
        raise ConfigError(
            f"{PREFIX}MODEL_DIRECTORY: {error.message}: prepare another model"
        ) from error


async def _start(engine: EncoderEngine, loading: AdapterLoading[FetchedEncoderAdapter]) -> None:
    try:
        await engine.start(loading)
    except ValueError as error:
        raise ConfigError(f"{PREFIX}MODEL_DIRECTORY: {error}") from error
