"""Starts an inference worker: settings, objects, serve."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from edgelora.v1.inference_service_pb2_grpc import add_InferenceServiceServicer_to_server
from services.chassis.base_model import BaseModel
from services.chassis.channel import open_channel
from services.chassis.sealing import Sealer
from services.chassis.server import ServiceHost, run_service
from services.inference.adapter_loading import AdapterLoading
from services.inference.adapter_source import AdapterSource
from services.inference.backends.torch_factory import make_torch_backend
from services.inference.chat_template import ChatTemplate
from services.inference.config import InferenceConfig
from services.inference.engine.engine import Engine
from services.inference.engine_config import make_engine_config
from services.inference.prompt_encoder import PromptEncoder
from services.inference.readiness import ReadinessWatch, generate_one_token
from services.inference.refusals import Refusals
from services.inference.residency import ResidencyReporter
from services.inference.servicer import InferenceServicer
from services.inference.tokenizer import TextTokenizer

_EXIT_ENGINE_DIED = 70


async def main(environ: Mapping[str, str]) -> None:
    """Serves until SIGTERM or SIGINT; exits with status 70 when the engine dies."""
    config = InferenceConfig.from_env(environ)
    model = BaseModel.load(config.model_directory)
    tokenizer = TextTokenizer.load(config.model_directory)
    template = ChatTemplate.load(config.model_directory, tokenizer.control_tokens)
    engine_config = make_engine_config(config, model, tokenizer)
    max_sequence_tokens = min(model.max_context_tokens, engine_config.capacity_tokens)
    backend = make_torch_backend(num_threads=config.num_threads, dtype=config.dtype)
    engine = Engine(backend, engine_config)
    encoder = PromptEncoder(tokenizer, template, max_sequence_tokens)
    refusals = Refusals(config.refusal_hold_s)
    engine_died = asyncio.Event()
    host = ServiceHost([config.address])
    async with open_channel(config.store_address) as channel:
        source = AdapterSource(
            channel,
            model,
            max_rank=config.max_lora_rank,
            timeout_s=config.fetch_timeout_s,
            shared_directory=config.shared_blob_directory,
        )
        reporter = ResidencyReporter(
            channel,
            engine,
            refusals,
            worker=config.name,
            interval_s=config.residency_interval_s,
        )
        loading = AdapterLoading(
            engine,
            source,
            refusals,
            on_residency_changed=reporter.note_change,
            on_engine_died=engine_died.set,
        )
        servicer = InferenceServicer(
            engine,
            encoder,
            loading,
            model,
            Sealer(config.seal_key),
            worker=config.name,
            backend=config.backend,
            max_sequence_tokens=max_sequence_tokens,
            max_loras=config.max_loras,
            max_lora_rank=config.max_lora_rank,
        )
        host.add(add_InferenceServiceServicer_to_server, servicer, "edgelora.v1.InferenceService")
        watch = ReadinessWatch(engine, host.set_ready, stall_limit_s=config.stall_limit_s)
        async with host.serving():
            await engine.start(loading)
            await generate_one_token(engine, engine_config.canary_token_ids)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(reporter.run()), group.create_task(watch.run())]
                await _first_of(host.wait_for_stop(), engine_died.wait())
                for task in tasks:
                    task.cancel()
        await loading.close()
        await engine.stop()
        source.close()
        encoder.close()
    if engine_died.is_set():
        raise SystemExit(_EXIT_ENGINE_DIED)


async def _first_of(*awaitables: Coroutine[Any, Any, Any]) -> None:
    tasks = {asyncio.create_task(each) for each in awaitables}
    _, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()


if __name__ == "__main__":
    run_service("inference", main)
