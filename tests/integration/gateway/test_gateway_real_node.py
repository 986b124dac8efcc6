"""The gateway on a whole node: real store, real scheduler, real worker, real model."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
import pytest_asyncio

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    AdapterRejectedError,
    InvalidRequestError,
    NotFoundError,
    PromptTooLongError,
    WorkerLostError,
)
from edgelora.generation import Accepted, Delta, Done, GenerationOptions, Usage
from edgelora.v1 import gateway_service_pb2 as pb
from tests.support.adapter_files import AdapterFiles, config_bytes
from tests.support.node_bench import CONFIG_FILE, WEIGHTS_FILE, node_bench

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

GREEDY = GenerationOptions(max_tokens=12, ignore_eos=True)
LONG = GenerationOptions(max_tokens=400, ignore_eos=True)
QUESTION = [("user", "Name three kinds of fruit.")]
ROOMY = {"max_concurrent_requests": 500, "max_tokens_per_minute": 10**9}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node():
    async with node_bench() as running:
        yield running


async def tokens(client, adapters=()) -> list[int]:
    """The token ids of a greedy answer that ended well."""
    events = [event async for event in client.chat(QUESTION, adapters=adapters, options=GREEDY)]
    assert isinstance(events[-1], Done)
    return [token for event in events if isinstance(event, Delta) for token in event.token_ids]


async def first_delta(events) -> None:
    async for event in events:
        if isinstance(event, Delta):
            return
    pytest.fail("the stream ended without a delta")


async def test_an_uploaded_adapter_changes_the_answer_and_strength_0_is_the_base(node):
    client = await node.gateway.client("acme", **ROOMY)
    registered = await client.register_adapter(node.adapter(1), alias="mine")
    base = await tokens(client)
    assert len(base) == 12
    changed = await tokens(client, "mine")
    assert changed != base
    assert await tokens(client, registered.adapter.digest) == changed
    assert await tokens(client, {"mine": 0.0}) == base


async def test_four_tenants_with_one_name_get_each_their_own_adapter_Q07_X01(node):
    clients = [await node.gateway.client(f"t{index}", **ROOMY) for index in range(4)]
    for index, client in enumerate(clients):
        await client.register_adapter(node.adapter(10 + index), alias="home", replace_alias=True)
    alone = [await tokens(client, "home") for client in clients]
    assert len({tuple(answer) for answer in alone}) == 4
    together = await asyncio.gather(*(tokens(client, "home") for client in clients))
    assert together == alone


async def test_an_unknown_adapter_fails_its_own_request_and_no_other_A12(node):
    client = await node.gateway.client("rows", **ROOMY)
    for index, name in enumerate(("a", "b")):
        await client.register_adapter(node.adapter(30 + index), alias=name)
    alone = [await tokens(client, name) for name in ("a", "b")]
    assert alone[0] != alone[1]
    *together, missing = await asyncio.gather(
        *(tokens(client, name) for name in ("a", "b", "nope")), return_exceptions=True
    )
    assert together == alone
    assert isinstance(missing, AdapterNotFoundError)


async def test_no_tenant_touches_or_even_sees_anothers_adapter_T34(node):
    owner = await node.gateway.client("owner", **ROOMY)
    stranger = await node.gateway.client("stranger", **ROOMY)
    digest = (await owner.register_adapter(node.adapter(20), alias="mail")).adapter.digest
    absent = "sha256:" + "0" * 64

    async def refusal(attempt) -> tuple:
        with pytest.raises(AdapterNotFoundError) as caught:
            await attempt
        return caught.value.message, caught.value.field, caught.value.metadata

    for foreign, unknown in (("mail", "never"), (digest, absent)):
        assert await refusal(tokens(stranger, foreign)) == await refusal(tokens(stranger, unknown))
        assert await refusal(stranger.delete_adapter(foreign)) == await refusal(
            stranger.delete_adapter(unknown)
        )
    assert await refusal(stranger.set_adapter_alias("mine", digest)) == await refusal(
        stranger.set_adapter_alias("mine", absent)
    )
    assert not (await stranger.list_adapters()).adapters
    # The stranger's own upload of the same content is new to it, and its removal hurts nobody.
    answer = await tokens(owner, "mail")
    assert (await stranger.register_adapter(node.adapter(20), alias="mail")).is_new
    await stranger.delete_adapter(digest)
    with pytest.raises(AdapterNotFoundError):
        await tokens(stranger, "mail")
    assert await tokens(owner, "mail") == answer


async def test_a_deleted_adapter_is_gone_for_its_owner_at_once_Q06(node):
    client = await node.gateway.client("acme", **ROOMY)
    digest = (await client.register_adapter(node.adapter(21), alias="old")).adapter.digest
    await tokens(client, "old")
    removed = await client.delete_adapter(digest)
    assert list(removed.removed_aliases) == ["old"]
    for name in ("old", digest):
        with pytest.raises(AdapterNotFoundError):
            await tokens(client, name)


async def test_a_replaced_adapter_answers_at_once_while_the_old_one_finishes_X02(node):
    client = await node.gateway.client("swapper", **ROOMY)
    cold = await node.gateway.client("cold", **ROOMY)
    old = await client.register_adapter(node.adapter(40), alias="swap", expected_generation=0)
    await cold.register_adapter(node.adapter(41), alias="new")
    before = await tokens(client, "swap")
    expected = await tokens(cold, "new")
    assert before != expected
    async with aclosing(client.chat(QUESTION, adapters="swap", options=LONG)) as running:
        assert (await anext(running)).adapters[0].digest == old.adapter.digest
        await first_delta(running)
        swapped = await client.register_adapter(
            node.adapter(41), alias="swap", expected_generation=old.alias.generation
        )
        assert await tokens(client, "swap") == expected
        rest = [event async for event in running]
    assert isinstance(rest[-1], Done)
    assert await tokens(client, old.adapter.digest) == before
    events = [event async for event in client.chat(QUESTION, adapters="swap", options=GREEDY)]
    (used,) = events[0].adapters
    assert used.generation == swapped.alias.generation
    assert used.parent_digest == old.adapter.digest


async def test_bad_adapters_are_refused_by_field_while_a_stream_goes_on_A06(node):
    client = await node.gateway.client("acme", **ROOMY)
    good = node.adapter(22)
    config, weights = (good / CONFIG_FILE).read_bytes(), (good / WEIGHTS_FILE).read_bytes()
    bad = {
        "rank over the cap": AdapterFiles(config_bytes(r=600), weights),
        "rank 0": AdapterFiles(config_bytes(r=0), weights),
        "rank over the cap by pattern": AdapterFiles(
            config_bytes(rank_pattern={"q_proj": 600}), weights
        ),
        "a bias": AdapterFiles(config_bytes(bias="all"), weights),
        "no alpha": AdapterFiles(config_bytes(lora_alpha=...), weights),
        "DoRA": AdapterFiles(config_bytes(use_dora=True), weights),
        "a target that does not exist": AdapterFiles(
            config_bytes(target_modules=["q_proj", "nothing"]), weights
        ),
        "a cut file": AdapterFiles(config, weights[:-1]),
        "a pickle": AdapterFiles(config, b"\x80\x04\x95" + b"a" * 1000),
        "no JSON": AdapterFiles(b"<html>", weights),
    }
    before = {adapter.digest for adapter in (await client.list_adapters()).adapters}
    async with aclosing(client.chat(QUESTION, options=LONG)) as events:
        await first_delta(events)
        for name, files in bad.items():
            with pytest.raises((AdapterRejectedError, AdapterIncompatibleError)) as caught:
                await client.register_adapter(node.save("bad", files), alias="bad")
            assert caught.value.field, name
        rest = [event async for event in events]
    assert isinstance(rest[-1], Done)
    assert {adapter.digest for adapter in (await client.list_adapters()).adapters} == before


async def test_what_only_the_model_can_judge_is_refused_with_field_and_numbers_P05_P09(node):
    client = await node.gateway.client("acme", **ROOMY)
    context = (await client.status()).max_context_tokens
    with pytest.raises(PromptTooLongError) as caught:
        await anext(aiter(_after_accepted(client.generate("fruit " * 10 * context))))
    assert caught.value.field == "prompt"
    assert str(context) in caught.value.message
    with pytest.raises(InvalidRequestError) as caught:
        options = GenerationOptions(stop_token_ids=[2**31])
        await anext(aiter(_after_accepted(client.generate("Hi", options=options))))
    assert caught.value.field == "options.stop.stop_token_ids[0]"
    await node.wait_until_idle()


async def _after_accepted(events):
    await anext(events)
    async for event in events:
        yield event


async def test_leaving_frees_the_sequence_and_its_adapter_F22_S10(node):
    client = await node.gateway.client("acme", **ROOMY)
    await client.register_adapter(node.adapter(1), alias="mine", replace_alias=True)
    async with aclosing(client.chat(QUESTION, adapters="mine", options=LONG)) as events:
        await first_delta(events)
        assert (await node.engine()).num_running == 1
    async with asyncio.timeout(2):
        await node.wait_until_idle()


async def test_a_slider_that_moves_while_the_answer_runs_changes_it(node):
    client = await node.gateway.client("acme", **ROOMY)
    await client.register_adapter(node.adapter(1), alias="mine", replace_alias=True)
    options = GenerationOptions(max_tokens=200, ignore_eos=True)

    async def answer(strengths=()):
        said, moves = [], iter(strengths)
        async with aclosing(client.chat(QUESTION, adapters="mine", options=options)) as events:
            async for event in events:
                if isinstance(event, Accepted):
                    request_id = event.request_id
                if isinstance(event, Delta):
                    said += event.token_ids
                    strength = next(moves, None)
                    if strength is not None:
                        assert list((await client.set_strength(request_id, strength)).values()) == [
                            strength
                        ]
        with pytest.raises(NotFoundError):
            await client.set_strength(request_id, 1.0)
        return said

    whole, moved = await answer(), await answer([0.5, 0.0, 2.0])
    assert len(whole) == len(moved) == 200
    assert moved[0] == whole[0]
    assert moved != whole
    await node.wait_until_idle()


async def test_a_conversation_stays_warm_for_its_tenant_until_it_is_forgotten(node):
    client, other = [await node.gateway.client(name, **ROOMY) for name in ("acme", "other")]

    async def turn(asking, messages):
        """The answer, and how many tokens of the prompt were there already."""
        text = ""
        async for event in asking.chat(messages, options=GREEDY, session="kitchen"):
            if isinstance(event, Delta):
                text += event.text
            if isinstance(event, Usage):
                usage = event
        assert usage.engine_s > 0
        return text, usage.num_cached_prompt_tokens

    opening = [("user", "Tell me of the sea. " * 20)]
    text, _ = await turn(client, opening)
    following = [*opening, ("assistant", text), ("user", "And of the wind?")]
    assert (await turn(client, following))[1] > 80
    assert (await turn(other, following))[1] == 0
    assert (await node.engine()).num_sessions == 2
    assert await client.forget_session("kitchen") == 1
    assert (await turn(client, following))[1] == 0
    assert [await each.forget_session() for each in (client, other)] == [1, 1]
    await node.wait_until_idle()
    engine = await node.engine()
    assert (engine.num_sessions, engine.num_free_kv_blocks) == (0, engine.num_kv_blocks)
    shares_s = sum(share.step_time.ToNanoseconds() for share in engine.shares) / 1e9
    assert shares_s == pytest.approx(engine.step_time.ToNanoseconds() / 1e9, rel=0.001)


async def test_200_cancels_before_the_first_message_leave_the_engine_empty_S12_S11(node):
    await node.gateway.client("acme", **ROOMY)
    stub = await node.gateway.stub()
    request = pb.GenerateRequest(prompt="Once upon a time", options=LONG.to_message())
    for round_number in range(200):
        call = stub.Generate(request, metadata=node.gateway.authorization(), timeout=60)
        for _ in range(round_number % 20):
            await asyncio.sleep(0)
        if round_number % 4 == 3:
            assert (await call.read()).event.HasField("accepted")
        call.cancel()
    await node.wait_until_idle()
    client = await node.gateway.client("acme")
    assert (await client.status()).usage.num_running == 0
    assert len(await tokens(client)) == 12


async def test_a_killed_worker_ends_its_stream_within_a_second_and_its_successor_serves_F04(node):
    client = await node.gateway.client("acme", **ROOMY)
    await client.register_adapter(node.adapter(1), alias="mine", replace_alias=True)
    before = await tokens(client, "mine")
    events = client.chat(QUESTION, adapters="mine", options=LONG)
    await first_delta(events)

    node.inference.process.kill()
    seen = []
    with pytest.raises(WorkerLostError) as caught:
        async with asyncio.timeout(1):
            async for event in events:
                seen.append(event)
    assert caught.value.code == "UNAVAILABLE"
    assert not any(isinstance(event, Usage | Done) for event in seen)
    node.inference.process.wait()

    await node.start_inference()
    await node.gateway.wait_for_queues(lambda queues: queues.workers[0].is_ready)
    assert await tokens(client, "mine") == before
    await node.wait_until_idle()
