"""The hot index is a hint: it follows the truth, and nothing depends on it."""

import asyncio
import json

import pytest

from edgelora.v1.adapter_pb2 import AdapterState
from services.adapter_store.hot_index import HEARTBEAT_KEY, WORKERS_KEY, worker_key
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess, eventually
from tests.support.adapter_files import good_adapter
from tests.support.redis_server import STORE_USER

pytestmark = pytest.mark.integration


@pytest.fixture
async def store(tmp_path, redis):
    process = StoreProcess(tmp_path, redis)
    try:
        await process.start()
        yield process
    finally:
        process.close()


def indexed(redis, worker: str = "w") -> set[str]:
    with redis.admin() as admin:
        if admin.type(worker_key(worker)) != b"hash":
            return set()
        return {digest.decode() for digest in admin.hgetall(worker_key(worker))}


def num_store_connections(redis) -> int:
    with redis.admin() as admin:
        return sum(each["user"] == STORE_USER for each in admin.client_list())


async def registered(client: StoreClient, count: int = 3) -> list[str]:
    return [
        (await client.register("a", good_adapter(seed))).adapter.digest for seed in range(count)
    ]


async def test_index_follows_the_reports_with_few_rights_T21(client, store, redis):
    one, two, _ = await registered(client)
    await client.report("w", one, two)
    await eventually(lambda: indexed(redis) == {one, two})
    with redis.admin() as admin:
        entry = json.loads(admin.hget(worker_key("w"), one))
        assert set(entry) == {"last_used_s", "loading", "references"}
        assert admin.smembers(WORKERS_KEY) == {b"w"}
        assert 0 < admin.ttl(worker_key("w")) <= 30
        assert 0 < admin.ttl(HEARTBEAT_KEY) <= 30
        assert admin.execute_command("ACL", "LOG") == [], "no right was missing"
    await client.report("w", two)
    await eventually(lambda: indexed(redis) == {two})
    await client.report("w")
    await eventually(lambda: indexed(redis) == set())


async def test_everything_works_without_redis_and_the_index_returns_F08_F09_R06(
    client, store, redis
):
    one, two, three = await registered(client)
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})

    redis.stop()
    await client.report("w", one, two)
    assert (await client.resolve("a", one)).residencies[0].num_resident == 1
    late = (await client.register("a", good_adapter(9))).adapter.digest
    for _ in range(100):
        await client.report("w", one, two, three)
        await client.report("w", one, two, three, late)
    await eventually(lambda: "hot_index_lost" in store.log.read_text())

    redis.start()
    await eventually(lambda: indexed(redis) == {one, two, three, late})
    assert store.log.read_text().count("hot_index_lost") == 1, "one line a change, not one a try"


async def test_flushed_index_is_rebuilt_F09(client, store, redis):
    one, two, _ = await registered(client)
    await client.report("w", one, two)
    await eventually(lambda: indexed(redis) == {one, two})
    with redis.admin() as admin:
        admin.flushall()
    await eventually(lambda: indexed(redis) == {one, two})


async def test_hanging_redis_delays_nobody_and_leaks_no_connection_R04_R05_F07(
    client, store, redis
):
    one, *_ = await registered(client)
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})
    redis.pause()
    try:
        await eventually(lambda: "hot_index_lost" in store.log.read_text())
        for _ in range(50):
            await client.resolve("a", one)
            await client.report("w", one)
    finally:
        redis.resume()
    with redis.admin() as admin:
        admin.flushall()
    await eventually(lambda: indexed(redis) == {one})
    await eventually(lambda: num_store_connections(redis) <= 1)


async def test_read_only_redis_is_reconnected_R02(client, store, redis):
    one, *_ = await registered(client)
    with redis.admin() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    await client.report("w", one)
    await eventually(lambda: "hot_index_lost" in store.log.read_text())
    assert (await client.resolve("a", one)).residencies[0].worker == "w"
    with redis.admin() as admin:
        admin.execute_command("REPLICAOF", "NO", "ONE")
    await eventually(lambda: indexed(redis) == {one})
    await eventually(lambda: num_store_connections(redis) <= 1)


async def test_wrong_types_and_full_memory_are_healed_F09(client, store, redis):
    one, *_ = await registered(client)
    with redis.admin() as admin:
        admin.set(worker_key("w"), "garbage")
        admin.delete(WORKERS_KEY)
        admin.lpush(WORKERS_KEY, "garbage")
        admin.delete(HEARTBEAT_KEY)
        admin.lpush(HEARTBEAT_KEY, "garbage")
    await client.report("w", one)
    await eventually(lambda: indexed(redis) == {one})
    with redis.admin() as admin:
        admin.config_set("maxmemory", "1")
    await eventually(lambda: "hot_index_lost" in store.log.read_text())
    await client.resolve("a", one)
    with redis.admin() as admin:
        admin.config_set("maxmemory", "0")
        admin.flushall()
    await eventually(lambda: indexed(redis) == {one})


async def test_revoked_password_is_survived_F09(client, store, redis):
    one, *_ = await registered(client)
    with redis.admin() as admin:
        admin.execute_command("ACL", "SETUSER", "edgelora-store", "off")
        admin.client_kill_filter(_type="normal", skipme=True)
    await client.report("w", one)
    await eventually(lambda: "hot_index_lost" in store.log.read_text())
    assert (await client.resolve("a", one)).residencies
    with redis.admin() as admin:
        admin.execute_command("ACL", "SETUSER", "edgelora-store", "on")
    await eventually(lambda: indexed(redis) == {one})


async def test_restarted_store_takes_hints_until_the_workers_report(client, store, redis):
    one, two, _ = await registered(client)
    await client.report("w", one, two, incarnation=5)
    await eventually(lambda: indexed(redis) == {one, two})
    store.kill()
    await store.start()
    response = await client.resolve("a", one)
    assert response.residencies[0].worker == "w"
    await client.report("w", two, incarnation=5)
    assert not (await client.resolve("a", one)).residencies


async def test_poisoned_entries_are_at_worst_a_miss_T22(client, store, redis):
    mine, other, _ = await registered(client)
    store.kill()
    unknown = "sha256:" + "e" * 64
    good = json.dumps({"last_used_s": 1.0, "loading": False, "references": 0})
    poison = {
        "../../etc/passwd": good,
        unknown: good,
        mine: json.dumps({"last_used_s": 1.0, "loading": False, "references": 0, "path": "/etc"}),
        other: b"\x80\x04cos\nsystem\n",
        "sha256:" + "d" * 64: b"x" * 100_000,
    }
    with redis.admin() as admin:
        admin.sadd(WORKERS_KEY, "evil", "../w", b"\xff\xfe", "wrongtype", "huge")
        admin.hset(worker_key("evil"), mapping=poison)
        admin.set(worker_key("wrongtype"), "x")
        admin.hset(worker_key("huge"), mapping={str(i): "x" for i in range(5000)})
        admin.set(HEARTBEAT_KEY, "x")
    await store.start()
    response = await client.resolve("a", mine, other)
    assert not response.residencies
    assert all(each.state == AdapterState.ADAPTER_STATE_REGISTERED for each in response.adapters)
    with pytest.raises(Exception, match="no such adapter"):
        await client.resolve("a", unknown)
    # Control: a well-formed entry of a known adapter is taken as a hint.
    store.kill()
    with redis.admin() as admin:
        admin.flushall()
        admin.sadd(WORKERS_KEY, "w")
        admin.hset(worker_key("w"), mapping={mine: good})
    await store.start()
    assert (await client.resolve("a", mine)).residencies[0].worker == "w"


async def test_store_starts_without_its_redis_F08(tmp_path, redis):
    redis.stop()
    store = StoreProcess(tmp_path, redis)
    try:
        await store.start()
        async with open_channel(store.address) as channel:
            client = StoreClient(channel)
            one, *_ = await registered(client)
            await client.report("w", one)
            redis.start()
            await eventually(lambda: indexed(redis) == {one})
            await asyncio.gather(*(client.resolve("a", one) for _ in range(20)))
    finally:
        store.close()
