"""What a child says is taken up to its bounds, and written whole or not at all."""

import asyncio
import errno
import hashlib

import pytest

from edgelora.errors import ResourcePressureError
from services.adapter_store.verification.child_process import (
    ChildFailedError,
    Payload,
    read_answer,
    run_child,
    store_payload,
)


def output(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


async def test_answer_ends_where_it_says_and_the_payload_follows(tmp_path):
    reader = output((2).to_bytes(8, "little"), b"{}", b"pay", b"load")
    assert await read_answer(reader) == b"{}"
    stored = await store_payload(reader, Payload(path=tmp_path / "blob", max_bytes=7))
    assert stored is not None
    assert stored.size_bytes == 7
    assert stored.sha256 == hashlib.sha256(b"payload").hexdigest()
    assert (tmp_path / "blob").read_bytes() == b"payload"
    assert (tmp_path / "blob").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("said", [b"", b"1234567", (5).to_bytes(8, "little") + b"1234"])
async def test_cut_answer_is_none(said):
    assert await read_answer(output(said)) is None


async def test_endless_answer_is_not_read():
    with pytest.raises(ChildFailedError, match="no answer"):
        await read_answer(output(b"\xff" * 8, b"x" * 1000))


async def test_nothing_is_written_where_nothing_follows(tmp_path):
    assert await store_payload(output(), Payload(path=tmp_path / "blob", max_bytes=7)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("payload", [True, False])
async def test_too_long_a_payload_is_cut_off(tmp_path, payload):
    place = Payload(path=tmp_path / "blob", max_bytes=2**20) if payload else None
    with pytest.raises(ChildFailedError, match="too long"):
        await store_payload(output(b"x" * (2**20 + 1)), place)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2**20


async def test_place_that_can_not_be_written_is_the_stores_trouble(tmp_path):
    (tmp_path / "blob").write_text("in the way")
    with pytest.raises(ResourcePressureError):
        await store_payload(output(b"x"), Payload(path=tmp_path / "blob", max_bytes=9))
    assert (tmp_path / "blob").read_text() == "in the way"


async def test_process_that_can_not_be_started_is_no_fault_of_the_adapter_F28(monkeypatch):
    async def start(*_arguments, **_options):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    with pytest.raises(ResourcePressureError) as caught:
        await run_child("json.tool", b"", descriptors=[], timeout_s=1)
    assert caught.value.metadata == {"resource": "processes"}
