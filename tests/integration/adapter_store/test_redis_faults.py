"""Redis answers late, in part or nonsense: the store goes by its registry and heals the index."""

from __future__ import annotations

import pytest

from services.adapter_store.hot_index import HEARTBEAT_KEY, WORKERS_KEY, HotIndex, worker_key
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess, eventually
from tests.support.adapter_files import good_adapter
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import STORE_USER

pytestmark = pytest.mark.integration

NONSENSE = {
    "loading F09": b"-LOADING Redis is loading the dataset in memory\r\n",
    "moved F09": b"-MOVED 1 127.0.0.1:1\r\n",
    "read-only R02": b"-READONLY You can't write against a read only replica.\r\n",
    "no rights F09": b"-NOPERM this user has no permissions\r\n",
    "number": b":7\r\n",
    "many numbers": b":7\r\n" * 50,
    "text": b"+OK\r\n" * 50,
    "nothing": b"$-1\r\n" * 50,
    "empty lists": b"*0\r\n" * 50,
    "list of lists": b"*2\r\n*1\r\n:1\r\n*1\r\n$1\r\nx\r\n" * 50,
    "null list": b"*-1\r\n" * 50,
    "huge text announced": b"$99999999999\r\n",
    "huge list announced": b"*2147483647\r\n",
    "negative length": b"$-7\r\n",
    "length that is no number": b"$seven\r\n",
    "deep": b"*1\r\n" * 5000,
    "web page": b"HTTP/1.1 400 Bad Request\r\n\r\n<html>",
    "bytes": bytes(range(256)),
}


@pytest.fixture
async def proxy(redis):
    between = RedisProxy(redis)
    await between.start()
    yield between
    await between.close()


@pytest.fixture
async def store(tmp_path, proxy):
    process = StoreProcess(tmp_path, proxy)
    try:
        await process.start()
        yield process
    finally:
        process.close()


def indexed(redis) -> set[str]:
    with redis.admin() as admin:
        if admin.type(worker_key("w")) != b"hash":
            return set()
        return {digest.decode() for digest in admin.hgetall(worker_key("w"))}


def num_store_connections(redis) -> int:
    with redis.admin() as admin:
        return sum(each["user"] == STORE_USER for each in admin.client_list())


async def registered(client: StoreClient, count: int = 2) -> list[str]:
    return [
        (await client.register("a", good_adapter(seed))).adapter.digest for seed in range(count)
    ]


async def goes_on(client: StoreClient, digest: str) -> None:
    """Whatever Redis does, this works."""
    response = await client.resolve("a", digest)
    assert response.residencies[0].worker == "w"
    await client.fetch(client.ticket("a", digest), digest)


async def test_silent_redis_delays_nobody_F08(client, store, redis, proxy):
    one, two = await registered(client)
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})
    proxy.hold()
    await eventually(lambda: "hot_index_lost" in store.log.read_text())
    for _ in range(50):
        await client.report("w", two)
        await client.report("w", one, two)
        await goes_on(client, one)
    late = (await client.register("a", good_adapter(9))).adapter.digest
    await client.report("w", one, late)
    proxy.heal()
    await eventually(lambda: indexed(redis) == {one, late})
    await eventually(lambda: num_store_connections(redis) <= 2)


async def test_slow_redis_is_written_to_all_the_same_F08(client, store, redis, proxy):
    one, two = await registered(client)
    proxy.delay_s = 0.1
    await client.report("w", one, two)
    await eventually(lambda: indexed(redis) == {one, two})
    await goes_on(client, one)


async def test_server_that_sleeps_is_waited_for_by_nobody_F08(client, store, redis):
    one, _ = await registered(client)
    with redis.admin() as admin:
        admin.client_pause(1500)
    await client.report("w", one)
    await eventually(lambda: "hot_index_lost" in store.log.read_text())
    await goes_on(client, one)
    await eventually(lambda: indexed(redis) == {one})


async def heals(client: StoreClient, redis, proxy: RedisProxy, *digests: str) -> None:
    """After a fault, everything is written again, whatever there was."""
    with redis.admin() as admin:
        admin.flushall()
    proxy.heal()
    await client.report("w", *digests)
    await eventually(lambda: indexed(redis) == set(digests))


async def test_answers_cut_short_are_never_taken_for_another_F10_R04(client, store, redis, proxy):
    one, two = await registered(client)
    await heals(client, redis, proxy, one)
    for limit in range(0, 60, 7):
        before = proxy.num_spoiled
        proxy.answer_bytes = limit
        await client.report("w", two)
        await eventually(lambda before=before: proxy.num_spoiled > before)
        await client.report("w", one)
        await goes_on(client, one)
        await heals(client, redis, proxy, *((one, two) if limit % 2 else (two,)))
    await eventually(lambda: num_store_connections(redis) <= 2)


async def test_nonsense_in_place_of_answers_is_survived_F09_F10_R02(client, store, redis, proxy):
    one, two = await registered(client)
    await heals(client, redis, proxy, one)
    for answer in NONSENSE.values():
        before = proxy.num_spoiled
        proxy.nonsense = answer
        await client.report("w", two)
        await eventually(lambda before=before: proxy.num_spoiled > before)
        await client.report("w", one)
        await goes_on(client, one)
        await heals(client, redis, proxy, one, two)
    await eventually(lambda: num_store_connections(redis) <= 2)
    assert "Traceback" not in store.log.read_text()


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_read_at_the_start_is_no_hint_T22_F10(answer, redis, proxy):
    proxy.nonsense = answer
    index = HotIndex(proxy.url, proxy.password_file.read_bytes(), list)
    assert await index.hints(0.0) == []
    assert proxy.num_spoiled > 0
    await index._redis.aclose()


async def test_store_starts_behind_a_redis_that_talks_nonsense_F08_F10(tmp_path, redis, proxy):
    proxy.nonsense = NONSENSE["many numbers"]
    store = StoreProcess(tmp_path, proxy)
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            (one,) = await registered(client, 1)
            assert not (await client.resolve("a", one)).residencies
            await heals(client, redis, proxy, one)
    finally:
        store.close()


async def test_store_starts_behind_a_silent_redis_F08(tmp_path, redis, proxy):
    proxy.hold()
    store = StoreProcess(tmp_path, proxy)
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            (one,) = await registered(client, 1)
            await client.report("w", one)
            await goes_on(client, one)
            proxy.heal()
            await eventually(lambda: indexed(redis) == {one})
    finally:
        store.close()


async def test_restarted_redis_is_filled_again_R03_R06(client, store, redis):
    one, two = await registered(client)
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})
    for held in ((one, two), (two,), (one,)):
        redis.stop()
        for _ in range(30):
            await client.report("w", *held)
            await client.report("w")
        await client.report("w", *held)
        redis.start()
        await eventually(lambda held=held: indexed(redis) == set(held))


async def test_junk_around_our_keys_is_left_alone_and_junk_in_them_replaced_F09(
    client, store, redis
):
    one, _ = await registered(client)
    with redis.admin() as admin:
        for number in range(2000):
            admin.set(f"stranger:{number}", "x" * 100)
        admin.set("edgelora:hot", "not ours")
        admin.hset("edgelora:hot:worker:other", mapping={"junk": b"\xff" * 1000})
        admin.zadd(worker_key("w"), {"wrong": 1})
        admin.delete(WORKERS_KEY, HEARTBEAT_KEY)
        admin.hset(WORKERS_KEY, mapping={"wrong": "kind"})
        admin.xadd(HEARTBEAT_KEY, {"wrong": "kind"})
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})
    with redis.admin() as admin:
        assert admin.get("stranger:1999") == b"x" * 100
        assert admin.get("edgelora:hot") == b"not ours"
        assert admin.exists("edgelora:hot:worker:other")
        assert admin.smembers(WORKERS_KEY) == {b"w"}
        assert admin.type(HEARTBEAT_KEY) == b"string"
