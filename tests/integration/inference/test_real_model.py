"""The whole worker on the real model and the native back end."""

import asyncio

import grpc
import pytest

from edgelora.errors import AdapterRejectedError, InternalError, from_rpc_error
from edgelora.v1.generation_pb2 import PriorityClass
from services.chassis.base_model import BaseModel
from services.inference.backends.native_backend import NativeBackend
from tests.support.adapter_files import AdapterFiles, config_bytes, safetensors_bytes, tensors
from tests.support.prepared_model import prepared_model
from tests.support.worker_bench import make_ticket, worker_bench

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _native_core():
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)


def adapter(seed, modules=("q_proj", "v_proj"), scale=0.15, rank=4):
    """A random adapter strong enough to change what the model says."""
    model = BaseModel.load(prepared_model())
    named = tensors(
        modules,
        rank=rank,
        seed=seed,
        targets=model.targets,
        num_layers=model.num_layers,
        scale=scale,
    )
    config = config_bytes(r=rank, target_modules=list(modules))
    return AdapterFiles(config, safetensors_bytes(named))


@pytest.fixture
async def bench():
    async with worker_bench(
        backend=NativeBackend(num_threads=2),
        model=prepared_model(),
        MAX_LORAS="3",
        MAX_NUM_SEQS="8",
        BLOCK_SIZE="16",
        KV_CACHE_SIZE="48MiB",
    ) as made:
        yield made


async def test_it_answers_and_ends_by_itself(bench):
    question = [("user", "What is the capital of France? Answer in one short sentence.")]
    answer = await bench.generate(question, ignore_eos=False, max_tokens=60)
    assert "Paris" in answer.text
    assert "<|im_end|>" not in answer.text


async def test_a_mixed_batch_equals_solo_runs_token_for_token_I4_Q12(bench):
    one, two, three = (
        bench.shelf.add(adapter(1)),
        bench.shelf.add(adapter(2, ("gate_proj", "up_proj", "down_proj"), 0.1)),
        bench.shelf.add(adapter(3, ("q_proj", "k_proj", "v_proj", "o_proj"), 0.1)),
    )
    asked = [
        ("Write a short e-mail to a friend.", {}),
        ("Write a short e-mail to a friend.", {one: 1.0}),
        ("Write a short e-mail to a friend.", {two: 1.0}),
        ("A list of fruit:", {three: 1.0}),
        ("A list of fruit:", {one: 1.0, three: 0.5}),
        ("A list of fruit: " * 30, {two: 0.5}),
        ("A list of fruit:", {one: 0.0}),
    ]
    solo = [(await bench.generate(p, a, max_tokens=12)).token_ids for p, a in asked]
    mixed = await asyncio.gather(*(bench.generate(p, a, max_tokens=12) for p, a in asked))
    assert [answer.token_ids for answer in mixed] == solo
    assert solo[6] == (await bench.generate("A list of fruit:", max_tokens=12)).token_ids
    assert len({tuple(ids) for ids in solo[:3]}) == 3
    status = await bench.rest()
    assert status.num_resident_adapters == 3


async def test_preempted_work_goes_on_token_for_token():
    async with worker_bench(
        backend=NativeBackend(num_threads=2),
        model=prepared_model(),
        BLOCK_SIZE="16",
        KV_CACHE_SIZE="4MiB",
    ) as bench:
        assert bench.engine.status.num_kv_blocks < 12
        prompts = ["The first thing to know is", "My favourite place is", "In the morning we"]
        solo = [(await bench.generate(prompt, max_tokens=60)).token_ids for prompt in prompts]
        mixed = await asyncio.gather(*(bench.generate(p, max_tokens=60) for p in prompts))
        assert [answer.token_ids for answer in mixed] == solo
        assert (await bench.rest()).num_preemptions > 0


@pytest.mark.parametrize("room", [{"MAX_NUM_SEQS": "2"}, {"MAX_LORAS": "1"}], ids=str)
async def test_batch_requests_give_way_and_go_on_token_for_token_I4(room):
    settings = {"MAX_NUM_SEQS": "8", "MAX_LORAS": "2", "KV_CACHE_SIZE": "48MiB"} | room
    async with worker_bench(
        backend=NativeBackend(num_threads=2), model=prepared_model(), BLOCK_SIZE="16", **settings
    ) as bench:
        one, two = bench.shelf.add(adapter(1)), bench.shelf.add(adapter(2))
        prompts = ["The first thing to know is", "My favourite place is"]
        urgent = [("A list of fruit:", two), ("In the morning we", two)]
        solo = [
            (await bench.generate(each, {one: 1.0}, max_tokens=60)).token_ids for each in prompts
        ]
        solo += [(await bench.generate(each, {digest: 1.0})).token_ids for each, digest in urgent]
        first_output = asyncio.Event()

        async def run_batch(prompt):
            ticket = make_ticket(
                bench.sealer, {one: 1.0}, priority=PriorityClass.PRIORITY_CLASS_BATCH
            )
            ids, usage = [], None
            async for response in bench.call(prompt, ticket=ticket, max_tokens=60):
                if response.HasField("delta"):
                    ids += response.delta.token_ids
                    first_output.set()
                elif response.HasField("finished"):
                    usage = response.finished.usage
            return ids, usage

        batch = [asyncio.create_task(run_batch(prompt)) for prompt in prompts]
        await first_output.wait()
        for number, (prompt, digest) in enumerate(urgent):
            answer = await bench.generate(prompt, {digest: 1.0})
            assert answer.token_ids == solo[2 + number]
            assert answer.finished.usage.num_preemptions == 0
        ends = await asyncio.gather(*batch)
        assert [ids for ids, _ in ends] == solo[:2]
        num_preemptions = sum(usage.num_preemptions for _, usage in ends)
        assert num_preemptions > 0
        # What was in blocks that were not full, and nothing else.
        assert bench.engine.status.num_recomputed_tokens < 16 * num_preemptions
        await bench.rest()


async def test_an_untrained_adapter_is_refused_by_its_lack_of_effect(bench):
    digest = bench.shelf.add(adapter(1, scale=1e-7))
    with pytest.raises(Exception, match="changes nothing"):
        await bench.generate("A list of fruit:", {digest: 1.0})
    assert (await bench.rest()).num_resident_adapters == 0


async def test_a_row_that_overflows_ends_alone_with_a_typed_error(bench):
    # Strength 1, with which the canary runs, keeps the values within half precision; 2 does not.
    digest = bench.shelf.add(adapter(1, ("v_proj",), scale=15.0))
    base = await bench.generate("A list of fruit:", max_tokens=30)
    assert len((await bench.generate("A list of fruit:", {digest: 1.0})).token_ids) == 8
    beside = asyncio.create_task(bench.generate("A list of fruit:", max_tokens=30))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.generate("A list of fruit:", {digest: 2.0})
    error = from_rpc_error(caught.value)
    assert isinstance(error, InternalError)
    assert "not a number" in error.message
    assert (await beside).token_ids == base.token_ids
    await bench.rest()


async def test_an_adapter_that_overflows_by_itself_is_refused(bench):
    digest = bench.shelf.add(adapter(1, ("v_proj",), scale=60.0))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.generate("A list of fruit:", {digest: 1.0})
    error = from_rpc_error(caught.value)
    assert isinstance(error, AdapterRejectedError)
    assert "overflow" in error.message


async def test_ranks_up_to_the_limit_are_served():
    modules = tuple(BaseModel.load(prepared_model()).targets)
    async with worker_bench(
        backend=NativeBackend(num_threads=2),
        model=prepared_model(),
        MAX_LORA_RANK="64",
        BLOCK_SIZE="16",
        KV_CACHE_SIZE="16MiB",
    ) as bench:
        digest = bench.shelf.add(adapter(1, modules, 0.05, rank=64))
        base = await bench.generate("A list of fruit:")
        adapted = await bench.generate("A list of fruit:", {digest: 1.0})
        assert adapted.token_ids != base.token_ids
        higher = bench.shelf.add(adapter(1, ("q_proj",), rank=65))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await bench.generate("A list of fruit:", {higher: 1.0})
        assert isinstance(from_rpc_error(caught.value), AdapterRejectedError)
