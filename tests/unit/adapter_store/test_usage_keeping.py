"""Counters are written again and again, whatever a turn met."""

import asyncio
import sqlite3

from services.adapter_store import store as composition
from tests.support import faulty_store


async def test_counters_are_written_again_after_a_turn_that_failed(tmp_path, monkeypatch):
    key = tmp_path / "seal.key"
    key.write_bytes(b"k" * 32)
    monkeypatch.setenv("FAULT_KEY_FILE", str(key))
    monkeypatch.setattr(composition, "_USAGE_PERIOD_S", 0.0)
    loop, has_tried_again, num_turns = asyncio.get_running_loop(), asyncio.Event(), 0

    def write(_counters):
        nonlocal num_turns
        num_turns += 1
        if num_turns > 1:
            loop.call_soon_threadsafe(has_tried_again.set)
        raise sqlite3.DatabaseError("database disk image is malformed")

    async with faulty_store.opened(tmp_path / "store") as (storage, _):
        monkeypatch.setattr(storage.writer, "write_usage", write)
        await has_tried_again.wait()
