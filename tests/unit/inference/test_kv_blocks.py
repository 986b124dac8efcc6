"""The block pool hands each block to one holder at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.kv_blocks import KvBlockPool, OutOfBlocksError


def test_blocks_for_rounds_up():
    pool = KvBlockPool(4, 16)
    assert [pool.blocks_for(n) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert pool.capacity_tokens == 64


def test_asking_for_too_many_takes_none():
    pool = KvBlockPool(4, 16)
    pool.allocate(3)
    with pytest.raises(OutOfBlocksError):
        pool.allocate(2)
    assert pool.num_free == 1


def test_freeing_twice_is_an_error():
    pool = KvBlockPool(4, 16)
    blocks = pool.allocate(2)
    pool.free(blocks)
    with pytest.raises(ValueError, match="freed twice"):
        pool.free(blocks[:1])


@given(st.lists(st.integers(0, 6), max_size=60))
def test_no_block_has_two_holders_and_none_is_lost(sizes):
    pool = KvBlockPool(16, 8)
    holders: list[list[int]] = []
    for size in sizes:
        if size == 0 and holders:
            pool.free(holders.pop(0))
        elif size <= pool.num_free:
            holders.append(pool.allocate(size))
        held = [block for blocks in holders for block in blocks]
        assert len(held) == len(set(held))
        assert len(held) + pool.num_free == 16
