"""What a worker shows of its engine; and under vLLM's names, for what reads those."""

import asyncio
import time

import pytest

from tests.support.adapter_files import good_adapter
from tests.support.free_port import free_port
from tests.support.prometheus import families, samples, scrape
from tests.support.worker_bench import worker_bench

pytestmark = pytest.mark.integration

VLLM = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:prompt_tokens_total": "counter",
    "vllm:generation_tokens_total": "counter",
    "vllm:time_to_first_token_seconds": "histogram",
    "vllm:inter_token_latency_seconds": "histogram",
    "vllm:e2e_request_latency_seconds": "histogram",
    "vllm:request_queue_time_seconds": "histogram",
    "vllm:request_success_total": "counter",
    "vllm:lora_requests_info": "gauge",
}


def reader(address):
    async def shown():
        text = await asyncio.to_thread(scrape, address)
        return families(text), samples(text)

    return shown


async def test_steps_tokens_blocks_slots_and_shares():
    address = f"127.0.0.1:{free_port()}"
    shown = reader(address)
    async with worker_bench(METRICS_ADDRESS=address) as bench:
        digest = bench.shelf.add(good_adapter())
        kinds, before = await shown()
        assert not [name for name in kinds if name.startswith("vllm")]
        await bench.generate(adapters={digest: 1.0}, max_tokens=8)
        await bench.generate(max_tokens=4)
        _, values = await shown()

        def since(series):
            return values[series] - before.get(series, 0.0)

        assert since("edgelora_engine_output_tokens_total") == 12
        assert since('edgelora_engine_tokens_total{phase="decode"}') == 10
        assert since("edgelora_engine_step_seconds_count") == 12
        assert since("edgelora_engine_batch_sequences_sum") == 12
        assert values["edgelora_kv_blocks_used"] == 0
        assert values["edgelora_kv_blocks"] == bench.engine.status.num_kv_blocks
        assert values['edgelora_adapter_slots_taken{state="resident"}'] == 1
        assert values['edgelora_engine_sequences{state="running"}'] == 0
        assert values["edgelora_engine_stalled_seconds"] == 0
        label = digest.removeprefix("sha256:")[:12]
        tokens = 'edgelora_adapter_output_tokens_total{adapter="%s"}'
        assert since(tokens % label) == 8
        assert since(tokens % "base") == 4
        assert values[tokens % "other"] == 0
        seconds = "edgelora_adapter_step_seconds_total"
        shares = sum(value for series, value in values.items() if series.startswith(seconds))
        assert shares == pytest.approx(bench.engine.status.step_s)


async def test_vllms_names_types_and_meaning():
    address = f"127.0.0.1:{free_port()}"
    shown = reader(address)
    async with worker_bench(METRICS_ADDRESS=address, VLLM_METRICS="true") as bench:
        digest = bench.shelf.add(good_adapter())
        kinds, before = await shown()
        assert {name: kind for name, kind in kinds.items() if name.startswith("vllm")} == VLLM
        model = next(
            series for series in before if series.startswith("vllm:num_requests_running")
        ).partition("{")[2]
        answer = await bench.generate(adapters={digest: 1.0}, max_tokens=8)
        _, values = await shown()
        of = "{" + model
        num_prompt_tokens = answer.started.num_prompt_tokens
        assert values[f"vllm:prompt_tokens_total{of}"] == num_prompt_tokens
        generated = f"vllm:generation_tokens_total{of}"
        assert values[generated] - before[generated] == 8
        for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
            assert values[f"vllm:{name}_seconds_count{of}"] == 1
        # Between eight tokens there are seven gaps; those that went out first have none before.
        first = len(answer.deltas[0].token_ids)
        assert values[f"vllm:inter_token_latency_seconds_count{of}"] == 8 - first
        success = 'vllm:request_success_total{finished_reason="%s",' + model
        assert [values[success % reason] for reason in ("length", "stop")] == [1, 0]
        assert values[f"vllm:kv_cache_usage_perc{of}"] == 0


async def test_the_adapters_that_run_and_wait_are_named_by_their_digests():
    address = f"127.0.0.1:{free_port()}"
    shown = reader(address)
    async with worker_bench(METRICS_ADDRESS=address, VLLM_METRICS="true") as bench:
        digest = bench.shelf.add(good_adapter())

        async def info():
            _, values = await shown()
            ((series, value),) = [
                pair for pair in values.items() if pair[0].startswith("vllm:lora_requests_info")
            ]
            return series, value

        series, value = await info()
        assert series == (
            'vllm:lora_requests_info{max_lora="2",running_lora_adapters="",'
            'waiting_lora_adapters=""}'
        )
        assert abs(time.time() - value) < 60

        async def generate():
            # One generation may be over before a scrape sees it.
            while True:
                async for _ in bench.call(adapters={digest: 1.0}, max_tokens=100_000, timeout=60):
                    pass

        running = asyncio.create_task(generate())
        while f'running_lora_adapters="{digest}"' not in (await info())[0]:
            assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while 'running_lora_adapters=""' not in (await info())[0]:
            pass
