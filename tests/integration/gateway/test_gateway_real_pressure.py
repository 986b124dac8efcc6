"""A whole node of real processes while its device heats up: real store, worker and model."""

from __future__ import annotations

import asyncio

import pytest

from edgelora.generation import Accepted, Delta, Done, GenerationOptions
from services.chassis.base_model import BaseModel
from tests.support.adapter_files import AdapterFiles, config_bytes, safetensors_bytes, tensors
from tests.support.node_bench import node_bench
from tests.support.prepared_model import prepared_model
from tests.support.pressured_node import PressuredNode

pytestmark = pytest.mark.integration

GREEDY = GenerationOptions(max_tokens=8, ignore_eos=True)
QUESTION = [("user", "Name three kinds of fruit.")]


async def ask(client, adapter=()):
    """What a greedy answer was accepted with, and its tokens."""
    events = [event async for event in client.chat(QUESTION, adapters=adapter, options=GREEDY)]
    assert isinstance(events[-1], Done)
    [accepted] = [event for event in events if isinstance(event, Accepted)]
    tokens = [token for event in events if isinstance(event, Delta) for token in event.token_ids]
    return accepted, tokens


def adapter(node, rank):
    model = BaseModel.load(prepared_model())
    named = tensors(
        rank=rank, seed=rank, targets=model.targets, num_layers=model.num_layers, scale=0.15
    )
    files = AdapterFiles(config_bytes(r=rank), safetensors_bytes(named))
    return node.save(f"r{rank}", files)


async def test_heat_takes_the_rungs_of_the_ladder_and_gives_them_back():
    async with node_bench() as node:
        gateway = node.gateway
        gateway.scheduler.kill()
        await asyncio.to_thread(
            lambda: gateway.start_scheduler(ELEVATED_MAX_RANK="4", CRITICAL_MAX_RANK="2")
        )
        device = PressuredNode(gateway)
        await asyncio.to_thread(device.start_monitor)
        device.client = client = await gateway.client("acme")
        await device.rules()
        large = (await client.register_adapter(adapter(node, 8), alias="mail")).adapter.digest
        small = (
            await client.register_adapter(adapter(node, 4), alias="mail-4", version_of_digest=large)
        ).adapter.digest
        _, base = await ask(client)
        _, as_large = await ask(client, "mail")
        _, as_small = await ask(client, "mail-4")
        assert len({tuple(each) for each in (base, as_large, as_small)}) == 3
        calm = await node.engine()

        device.set_temperature(47)
        await device.rules("temperature_elevated")
        accepted, tokens = await ask(client, "mail")
        [step] = accepted.degradations
        assert (step.step, step.adapter_digest, step.served_digest) == ("rank_cut", large, small)
        assert tokens == as_small

        device.set_temperature(61)
        await device.rules("temperature_critical")
        while (hot := await node.engine()).max_num_seqs == calm.max_num_seqs:
            pass
        assert hot.max_num_seqs == calm.max_num_seqs // 2
        assert hot.max_prefill_tokens < calm.max_prefill_tokens
        assert hot.num_threads <= calm.num_threads
        accepted, tokens = await ask(client, "mail")
        assert [step.step for step in accepted.degradations] == ["adapter_off"]
        assert tokens == base

        device.set_temperature(39)
        await device.rules()
        accepted, tokens = await ask(client, "mail")
        assert (accepted.degradations, tokens) == ((), as_large)
        while (cool := await node.engine()).max_num_seqs != calm.max_num_seqs:
            pass
        assert cool.max_prefill_tokens == calm.max_prefill_tokens
        assert cool.num_threads == calm.num_threads
