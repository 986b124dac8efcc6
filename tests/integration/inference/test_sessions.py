"""Conversations that are kept, seen from outside a worker."""

import asyncio

import grpc
import pytest

from services.chassis.sealing import Sealer
from tests.support.worker_bench import all_forgotten, make_ticket, worker_bench

pytestmark = pytest.mark.integration

PROMPT = "please sing a song about the sea and the wind"
FLUSH = [f"{number} " + "the wind sings of the sea " * 4 for number in range(12)]


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


async def turn(bench, prompt=PROMPT, *, tenant_id="tenant", **options):
    """A turn of a conversation; returns it with its answer, and how much was there already."""
    ticket = make_ticket(bench.sealer, tenant_id=tenant_id)
    answer = await bench.generate(prompt, ticket=ticket, **({"session": "s"} | options))
    return prompt + answer.text, answer.finished.usage.num_cached_prompt_tokens


async def flush(bench):
    """Other tenants' prompts take all the memory that nobody holds."""
    for prompt in FLUSH:
        await turn(bench, prompt, tenant_id="busy", session="", max_tokens=1)


async def test_the_next_turn_of_a_session_is_there_after_others_have_taken_the_memory(bench):
    found = {}
    for session in ("s", ""):
        conversation, _ = await turn(bench, session=session, tenant_id=f"of {session}")
        await flush(bench)
        following = f"{conversation} and the wind"
        found[session] = (await turn(bench, following, session=session, tenant_id=f"of {session}"))[
            1
        ]
    assert found["s"] > 0
    assert found[""] == 0
    status = await bench.rest()
    assert status.num_sessions == 1
    assert status.num_session_tokens >= found["s"]


async def test_the_name_of_one_tenant_is_nothing_to_another_T11_X01(bench):
    conversation, _ = await turn(bench, tenant_id="one")
    assert (await turn(bench, conversation, tenant_id="two"))[1] == 0
    assert await bench.forget("s", bench.claim("three")) == 0
    assert await bench.forget("s", bench.claim("two")) == 1
    assert (await turn(bench, conversation, tenant_id="one"))[1] > 0


async def test_what_is_forgotten_is_not_found(bench):
    conversation, _ = await turn(bench)
    assert await bench.forget("another") == 0
    assert await bench.forget("s") == 1
    assert await bench.forget("s") == 0
    status = await bench.rest()
    assert (status.num_sessions, status.num_cached_kv_blocks) == (0, 0)
    assert (await turn(bench, conversation))[1] == 0
    await turn(bench, session="other")
    assert await bench.forget() == 2


@pytest.mark.parametrize("make_claim", ["forged", "expired", "ticket", "nobody"])
async def test_nobody_forgets_without_a_claim(bench, make_claim):
    await turn(bench)
    claims = {
        "forged": bench.claim(),
        "expired": bench.claim(lasts_s=-1.0),
        "ticket": make_ticket(bench.sealer),
        "nobody": bench.claim(tenant_id=""),
    }
    if make_claim == "forged":
        claims["forged"].signature = Sealer(b"x" * 32).seal(claims["forged"]).signature
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.forget("s", claims[make_claim])
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (await bench.status()).num_sessions == 1


@pytest.mark.parametrize("name", ["x" * 65, "a\nb", "a\0"])
async def test_names_out_of_bounds_are_refused(bench, name):
    for call in (turn(bench, session=name), bench.forget(name)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "session" in caught.value.details()


async def test_an_idle_worker_lets_sessions_go_in_time():
    async with worker_bench(SESSION_AGE="50ms") as bench:
        await turn(bench)
        while (await bench.status()).num_sessions:
            pass
        steps = (await bench.status()).num_steps
        assert (await bench.rest()).num_steps == steps


async def test_it_can_be_switched_off():
    async with worker_bench(MAX_SESSIONS="0") as bench:
        await turn(bench)
        assert (await bench.rest()).num_sessions == 0


async def test_cancelled_turns_leave_what_was_there_S12(bench):
    await turn(bench)
    before = await bench.rest()

    def fail_long_ones(chunks):
        assert all(chunk.start_position < 100 for chunk in chunks)

    bench.backend.before_forward = fail_long_ones  # so that none gets to its end

    async def leave(number):
        call = bench.call(
            f"{number} {PROMPT}",
            ticket=make_ticket(bench.sealer, request_id=f"r{number}"),
            session=f"s{number % 12}",
            max_tokens=1000,
        )
        if number % 3 == 0:
            await call.read()
        call.cancel()

    for start in range(0, 1000, 20):
        await asyncio.gather(*(leave(number) for number in range(start, start + 20)))
    after = await bench.rest()
    assert bench.engine.num_open_streams == 0
    for name in ("num_sessions", "num_session_tokens", "num_free_kv_blocks"):
        assert getattr(after, name) == getattr(before, name)
    await all_forgotten(bench)
