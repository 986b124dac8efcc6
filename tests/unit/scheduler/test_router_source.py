"""Where the router comes from, and what a bad file does: nothing."""

from __future__ import annotations

import os

import pytest

from edgelora.errors import RouterMissingError
from services.scheduler.routing.router_source import RouterSource
from tests.support.fake_clock import FakeClock
from tests.support.small_router import small_router_file, write_small_router


@pytest.fixture
def clock():
    return FakeClock()


async def test_without_a_file_the_error_says_what_to_do(tmp_path, clock):
    source = RouterSource([tmp_path / "none"], clock)
    with pytest.raises(RouterMissingError, match=r"has no router: .*edgelora router train"):
        await source.current()


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x04\x95" + b"a" * 100, small_router_file().encoded()[:-1], b"{}" * 4096],
    ids=["empty", "a pickle", "cut", "text"],
)
async def test_a_file_that_is_none_is_told_and_never_used(tmp_path, clock, data):
    path = tmp_path / "router.safetensors"
    path.write_bytes(data)
    with pytest.raises(RouterMissingError, match=r"can not be read: .*edgelora router train"):
        await RouterSource([path], clock).current()


async def test_the_operators_file_comes_first_and_may_come_later(tmp_path, clock):
    own, packaged = tmp_path / "own", write_small_router(tmp_path / "packaged")
    source = RouterSource([own, packaged], clock)
    first = await source.current()
    write_small_router(own, base_cosine=0.9)
    assert await source.current() is first, "looked at most once a second"
    clock.advance(1.0)
    assert await source.current() is not first


async def test_an_operators_file_that_can_not_be_read_is_not_passed_over(tmp_path, clock):
    (tmp_path / "own").write_bytes(b"no router")
    source = RouterSource([tmp_path / "own", write_small_router(tmp_path / "packaged")], clock)
    with pytest.raises(RouterMissingError, match="can not be read"):
        await source.current()


async def test_a_changed_file_is_read_again_and_a_broken_one_keeps_the_router(tmp_path, clock):
    path = write_small_router(tmp_path / "router")
    source = RouterSource([path], clock)
    first = await source.current()
    clock.advance(1.0)
    assert await source.current() is first, "not read again while it is the same"
    path.write_bytes(b"half a file")
    clock.advance(1.0)
    assert await source.current() is first
    path.unlink()
    clock.advance(1.0)
    assert await source.current() is first
    write_small_router(path)
    clock.advance(1.0)
    assert await source.current() is not first


async def test_a_file_that_may_not_be_read_is_told(tmp_path, clock):
    path = tmp_path / "router"
    path.mkdir()  # root reads any file, and nobody a directory
    with pytest.raises(RouterMissingError, match="can not be read"):
        await RouterSource([path], clock).current()


async def test_a_pipe_in_the_files_place_holds_nobody_up(tmp_path, clock):
    os.mkfifo(tmp_path / "router")
    with pytest.raises(RouterMissingError):
        await RouterSource([tmp_path / "router"], clock).current()
