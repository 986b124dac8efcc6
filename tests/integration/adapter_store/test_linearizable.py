"""Sixteen clients change and read one alias at once: some order of their calls explains it all."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import AdapterNotFoundError, AlreadyExistsError
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support import alias_model
from tests.support.adapter_files import AdapterFiles, good_adapter
from tests.support.alias_model import (
    Call,
    Point,
    Register,
    RemoveAdapter,
    RemoveAlias,
    Resolve,
    Shelf,
)
from tests.support.linearizability import Recorder, linearization

pytestmark = pytest.mark.integration

NUM_CLIENTS, CALLS_EACH = 16, 14
TENANT, ALIAS = "tenant", "mail"


@pytest.fixture
async def store(tmp_path):
    process = StoreProcess(tmp_path, MAX_CONCURRENT_UPLOADS=str(NUM_CLIENTS))
    try:
        await process.start()
        yield process
    finally:
        process.close()


def digest_of(files: AdapterFiles) -> str:
    return adapter_digest(parse_adapter_config(files.config, max_rank=64), files.weights)


FILES = {digest_of(files): files for files in (good_adapter(seed) for seed in range(3))}


async def answer_to(client: StoreClient, call: Call) -> tuple:
    """Makes a call; its answer in the model's words."""
    try:
        if isinstance(call, Register):
            response = await client.register(
                TENANT, FILES[call.digest], alias=ALIAS, replace_alias=call.may_replace
            )
            assert response.adapter.digest == call.digest
            return ("registered", response.is_new, response.alias.generation)
        if isinstance(call, Point):
            alias = await client.set_alias(TENANT, ALIAS, call.digest, call.expected)
            return ("pointed", alias.generation)
        if isinstance(call, RemoveAlias):
            await client.delete(TENANT, ALIAS)
            return ("removed",)
        if isinstance(call, RemoveAdapter):
            response = await client.delete(TENANT, call.digest)
            assert response.removed_digest == call.digest
            return ("removed", list(response.removed_aliases) == [ALIAS])
        response = await client.resolve(TENANT, ALIAS)
        return ("resolved", response.adapters[0].digest)
    except AdapterNotFoundError:
        return ("unknown",)
    except AlreadyExistsError as error:
        return ("taken", int(error.metadata["generation"]))


def next_call(rng: random.Random, known_generation: int) -> Call:
    """A call of a client that last saw this generation."""
    digest = rng.choice(list(FILES))
    kind = rng.choices(
        ["resolve", "swap", "point", "unalias", "remove", "register"], [6, 4, 2, 1, 1, 1]
    )[0]
    return {
        "resolve": Resolve(),
        "swap": Point(digest, known_generation),
        "point": Point(digest, None),
        "unalias": RemoveAlias(),
        "remove": RemoveAdapter(digest),
        "register": Register(digest, rng.random() < 0.5),
    }[kind]


async def test_history_of_sixteen_clients_is_linearizable(store: StoreProcess):
    recorder = Recorder()

    async def run(number: int) -> None:
        rng = random.Random(number)
        generation = 0
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            for _ in range(CALLS_EACH):
                call = next_call(rng, generation)
                called = recorder.now()
                answer = await answer_to(client, call)
                recorder.note(call, called, answer)
                if answer[0] in ("registered", "pointed", "taken"):
                    generation = answer[-1]

    await asyncio.gather(*(run(number) for number in range(NUM_CLIENTS)))
    history = recorder.operations
    assert len(history) == NUM_CLIENTS * CALLS_EACH
    told = Counter(operation.answer[0] for operation in history)
    assert {"registered", "pointed", "taken", "unknown", "removed", "resolved"} <= told.keys()
    overlaps = sum(
        any(a.called < b.called < a.returned for b in history if b is not a) for a in history
    )
    assert overlaps > len(history) // 2, "the calls were made one after the other"
    assert linearization(history, Shelf(), alias_model.apply) is not None


async def test_of_sixteen_swaps_at_once_one_wins(client, store):
    digests = [(await client.register(TENANT, files)).adapter.digest for files in FILES.values()]
    for generation in range(8):
        answers = await asyncio.gather(
            *(
                answer_to(client, Point(digests[(generation + 1 + number % 2) % 3], generation))
                for number in range(NUM_CLIENTS)
            )
        )
        assert Counter(answer[0] for answer in answers) == {"pointed": 1, "taken": 15}
        assert {answer[1] for answer in answers} == {generation + 1}


async def test_generation_seen_before_a_removal_is_worth_nothing_after_it(client):
    one, two = [
        (await client.register(TENANT, files)).adapter.digest for files in list(FILES.values())[:2]
    ]
    seen = (await client.set_alias(TENANT, ALIAS, one)).generation
    await client.delete(TENANT, ALIAS)
    again = await client.set_alias(TENANT, ALIAS, two)
    assert again.generation > seen
    with pytest.raises(AlreadyExistsError):
        await client.set_alias(TENANT, ALIAS, one, seen)
    assert (await client.resolve(TENANT, ALIAS)).adapters[0].digest == two
