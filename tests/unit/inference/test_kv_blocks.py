"""The block pool hands each block to one holder at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.engine.kv_blocks import KvBlockPool, Origin, OutOfBlocksError

OURS = Origin("tenant", "")


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


def test_a_published_block_is_found_while_it_is_held_and_after():
    pool = KvBlockPool(4, 16)
    blocks = pool.allocate(2)
    pool.publish(blocks[0], b"a", OURS)
    assert pool.share([b"a", b"b"]) == blocks[:1]
    pool.free(blocks)
    pool.free(blocks[:1])
    assert (pool.num_free, pool.num_published) == (4, 1)
    assert pool.share([b"a"]) == blocks[:1]
    assert pool.num_free == 3


def test_a_prefix_ends_at_the_first_block_that_is_missing():
    pool = KvBlockPool(4, 16)
    blocks = pool.allocate(2)
    pool.publish(blocks[1], b"b", OURS)
    assert pool.share([b"a", b"b"]) == []


def test_a_second_block_with_the_same_content_stays_its_holders_own():
    pool = KvBlockPool(4, 16)
    first, second = pool.allocate(2)
    pool.publish(first, b"a", OURS)
    pool.publish(second, b"a", OURS)
    pool.free([first, second])
    assert pool.share([b"a"]) == [first]
    assert pool.num_published == 1


def test_published_blocks_go_last_and_the_least_recently_used_first_ends_before_starts():
    pool = KvBlockPool(5, 16)
    old, start, end = pool.allocate(3)
    for block, key in ((old, b"old"), (start, b"start"), (end, b"end")):
        pool.publish(block, key, OURS)
    pool.free([old])
    pool.free([start, end])
    assert not {old, start, end} & set(pool.allocate(2))
    assert [pool.allocate(1) for _ in range(3)] == [[old], [end], [start]]
    assert pool.num_published == 0
    assert pool.share([b"old"]) == []


def test_a_withdrawn_block_is_found_no_more_and_is_empty_once_nobody_holds_it():
    pool = KvBlockPool(4, 16)
    blocks = pool.allocate(2)
    pool.publish(blocks[0], b"a", OURS)
    pool.share([b"a"])
    pool.withdraw(blocks)
    assert pool.share([b"a"]) == []
    pool.publish(blocks[1], b"a", OURS)
    pool.free(blocks[:1])
    assert pool.num_free == 2
    pool.free(blocks)
    assert (pool.num_free, pool.num_published) == (4, 1)


def test_what_giving_tables_back_would_free():
    pool = KvBlockPool(8, 16)
    one = pool.allocate(3)
    pool.publish(one[0], b"a", OURS)
    two = pool.share([b"a"]) + pool.allocate(1)
    assert pool.num_released_by([one]) == 2
    assert pool.num_released_by([two]) == 1
    assert pool.num_released_by([one, two]) == 4


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=60))
def test_blocks_have_one_writer_and_none_is_lost(actions):
    pool = KvBlockPool(16, 8)
    holders: list[list[int]] = []
    content: dict[bytes, int] = {}
    for action, number in actions:
        key = bytes([number])
        if action == 0 and holders:
            pool.free(holders.pop(number % len(holders)))
        elif action == 1 and number <= pool.num_free:
            fresh = pool.allocate(number)
            assert not {block for blocks in holders for block in blocks} & set(fresh)
            content = {k: block for k, block in content.items() if block not in fresh}
            holders.append(fresh)
        elif action == 2 and holders and holders[-1]:
            if key not in content and holders[-1][0] not in content.values():
                content[key] = holders[-1][0]
            pool.publish(holders[-1][0], key, OURS)
        elif action == 3:
            holders.append(pool.share([key]))
            assert holders[-1] == ([content[key]] if key in content else [])
        held = {block for blocks in holders for block in blocks}
        assert len(held) + pool.num_free == 16
        assert pool.num_published == len(content)
