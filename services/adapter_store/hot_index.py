"""The hot index in Redis: which digest lies on which worker, its last use, its pins.

A hint, never the truth: it is written from the workers' reports, in full and every two seconds,
so that a restart, FLUSHALL, an eviction or a stranger's write heals by itself; and it is read once,
at the start, to route well until the workers have reported. All of it happens in one task beside
the requests, so a slow or dead Redis adds nothing to any of them, and nothing it says ends the
store.

This is the only module that imports redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.adapter_store.index_entries import decode_entry, encode_entry
from services.adapter_store.names import is_worker_name
from services.adapter_store.residency import WorkerReport
from services.chassis.logs import get_logger

KEY_PREFIX = "edgelora:hot:"
WORKERS_KEY = KEY_PREFIX + "workers"
HEARTBEAT_KEY = KEY_PREFIX + "heartbeat"

PERIOD_S = 2.0
_EXCHANGE_TIMEOUT_S = 0.5
_FIRST_RETRY_S = 0.1
_KEY_LIFE_S = 30
_MAX_WORKERS = 256
_MAX_SLOTS = 4096


def worker_key(worker: str) -> str:
    """The hash of one worker's slots: digest -> entry."""
    return f"{KEY_PREFIX}worker:{worker}"


class HotIndex:
    """Mirrors the workers' reports into Redis."""

    def __init__(
        self, url: str, password: bytes | None, snapshot: Callable[[], Sequence[WorkerReport]]
    ) -> None:
        """`snapshot` gives the reports that count now. Raises ValueError for a bad URL."""
        self._url = url
        self._password = None if password is None else password.decode()
        self._snapshot = snapshot
        self._changed = asyncio.Event()
        self._epoch = uuid4().hex
        self._written: set[str] = set()
        self._is_connected: bool | None = None
        self.num_errors = 0
        """Exchanges that failed, since the start."""
        self._redis = self._client()

    @property
    def is_connected(self) -> bool:
        """Whether the last exchange succeeded."""
        return self._is_connected is True

    def note_change(self) -> None:
        """Asks for the index to be written soon. Never waits."""
        self._changed.set()

    async def hints(self, now_s: float) -> list[WorkerReport]:
        """What the index says, checked for form only; empty when Redis does not answer.

        The incarnation is 0, so that any report of a worker replaces the hint.
        """
        try:
            async with asyncio.timeout(_EXCHANGE_TIMEOUT_S):
                found = await self._read(now_s)
        except Exception as error:  # noqa: BLE001 - as in `run`
            await self._lose(error)
            return []
        return found

    async def run(self) -> None:
        """Writes the index until cancelled."""
        retry_s = _FIRST_RETRY_S
        try:
            while True:
                try:
                    async with asyncio.timeout(_EXCHANGE_TIMEOUT_S):
                        await self._write()
                # Answers of a wrong kind break the client in ways of their own.
                except Exception as error:  # noqa: BLE001
                    await self._lose(error)
                    await asyncio.sleep(retry_s)
                    retry_s = min(2 * retry_s, PERIOD_S)
                    continue
                retry_s = _FIRST_RETRY_S
                if not self._is_connected:
                    get_logger().info("hot_index_connected")
                self._is_connected = True
                await self._wait_for_change()
        finally:
            await self._redis.aclose()

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(PERIOD_S):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _write(self) -> None:
        """Replaces all that this store ever wrote, in one transaction."""
        self._changed.clear()
        reports = self._snapshot()
        workers = {report.worker for report in reports}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(WORKERS_KEY, *(worker_key(name) for name in self._written | workers))
            for report in reports:
                if not report.slots:
                    continue
                key = worker_key(report.worker)
                pairs = [(slot.digest, encode_entry(slot)) for slot in report.slots.values()]
                pipe.hset(key, items=[text for pair in pairs for text in pair])
                pipe.expire(key, _KEY_LIFE_S)
            if workers:
                pipe.sadd(WORKERS_KEY, *workers)
                pipe.expire(WORKERS_KEY, _KEY_LIFE_S)
            pipe.set(HEARTBEAT_KEY, self._epoch, ex=_KEY_LIFE_S)
            await pipe.execute()
        self._written = workers

    async def _read(self, now_s: float) -> list[WorkerReport]:
        if await self._redis.scard(WORKERS_KEY) > _MAX_WORKERS:
            return []
        names = [
            _bytes(name).decode("ascii", "replace")
            for name in await self._redis.smembers(WORKERS_KEY)
        ]
        found = []
        for name in sorted(filter(is_worker_name, names)):
            if await self._redis.hlen(worker_key(name)) > _MAX_SLOTS:
                continue
            entries = await self._redis.hgetall(worker_key(name))
            slots = [
                decode_entry(_bytes(digest), _bytes(value)) for digest, value in entries.items()
            ]
            found.append(
                WorkerReport(
                    worker=name,
                    incarnation=0,
                    reported_at_s=now_s,
                    slots={slot.digest: slot for slot in slots if slot is not None},
                    refused=frozenset(),
                )
            )
            self._written.add(name)
        return found

    async def _lose(self, error: Exception) -> None:
        """Drops the connection: after any failure its state is unknown (READONLY among them)."""
        self.num_errors += 1
        if self._is_connected is not False:
            get_logger().warning("hot_index_lost", error_type=type(error).__name__)
        self._is_connected = False
        old, self._redis = self._redis, self._client()
        try:
            async with asyncio.timeout(_EXCHANGE_TIMEOUT_S):
                await old.aclose()
        except (RedisError, OSError, TimeoutError):
            return

    def _client(self) -> Redis:
        return Redis.from_url(
            self._url,
            password=self._password,
            protocol=2,  # no HELLO and no client metadata: the user's rights are few
            driver_info=None,
            socket_timeout=_EXCHANGE_TIMEOUT_S,
            socket_connect_timeout=_EXCHANGE_TIMEOUT_S,
            max_connections=2,
        )


def _bytes(text: bytes | str) -> bytes:
    """redis-py is typed for both; this client does not decode."""
    return text.encode() if isinstance(text, str) else text
