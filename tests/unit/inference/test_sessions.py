"""Which conversations' blocks are held, for how long, and who gives way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.inference.engine.kv_blocks import KvBlockPool, Origin
from services.inference.engine.sessions import SessionLimits, Sessions


class Bench:
    """A pool of blocks of one token, whose keys are numbers."""

    def __init__(self, num_blocks=100, **limits):
        self.pool = KvBlockPool(num_blocks, 1)
        self.sessions = Sessions(self.pool, SessionLimits(**limits))
        self.num_keys = 0

    def answer(self, tenant_id, name, num_blocks, now_s=0.0, *, digests=(), origin=None):
        """A conversation of new blocks is answered; returns their keys. Without a name, or with
        the origin of a turn that was cut, nothing is kept."""
        blocks = self.pool.allocate(num_blocks)
        keys = [b"%d" % (self.num_keys + index) for index in range(num_blocks)]
        self.num_keys += num_blocks
        for block, key in zip(blocks, keys, strict=True):
            self.pool.publish(block, key, origin or Origin(tenant_id, name))
        if name and origin is None:
            self.sessions.keep(tenant_id, name, self.pool.share(keys), digests, now_s)
        self.pool.free(blocks)
        return keys

    def flush(self):
        """Others' work takes every block that nobody holds."""
        self.pool.free(self.pool.allocate(self.pool.num_free))

    def found(self, keys):
        """How many of these keys are found, from the first on."""
        blocks = self.pool.share(keys)
        self.pool.free(blocks)
        return len(blocks)


def test_what_a_session_holds_outlasts_what_others_compute():
    bench = Bench()
    kept, lost = bench.answer("one", "a", 5), bench.answer("one", "", 5)
    assert bench.sessions.forget("one", "no such") == 0
    bench.flush()
    assert (bench.found(kept), bench.found(lost)) == (5, 0)
    assert (bench.sessions.num_sessions, bench.sessions.num_tokens) == (1, 5)


def test_a_new_turn_takes_the_place_of_the_old_one():
    bench = Bench()
    old = bench.answer("one", "a", 5)
    new = bench.answer("one", "a", 7)
    bench.flush()
    assert (bench.found(old), bench.found(new)) == (0, 7)
    assert (bench.sessions.num_sessions, bench.sessions.num_tokens) == (1, 7)


def test_the_session_unused_for_longest_gives_way_to_the_tenants_next_one():
    bench = Bench(max_per_tenant=2)
    first, second = bench.answer("one", "a", 3, 1.0), bench.answer("one", "b", 3, 2.0)
    other = bench.answer("two", "a", 3, 0.0)
    bench.sessions.touch("one", "a", 3.0)
    third = bench.answer("one", "c", 3, 4.0)
    bench.flush()
    assert [bench.found(keys) for keys in (first, second, third, other)] == [3, 0, 3, 3]


def test_a_tenant_holds_its_share_and_of_a_longer_conversation_the_start():
    bench = Bench(tenant_share=0.1)
    first, second = bench.answer("one", "a", 6, 1.0), bench.answer("one", "b", 6, 2.0)
    long = bench.answer("two", "a", 30, 3.0)
    bench.flush()
    assert [bench.found(keys) for keys in (first, second, long)] == [0, 6, 10]


def test_conversations_that_begin_alike_count_their_start_once():
    bench = Bench(tenant_share=0.1)
    start = bench.answer("one", "a", 8)
    for name in ("b", "c"):
        bench.sessions.keep("one", name, bench.pool.share(start), (), 1.0)
    assert (bench.sessions.num_sessions, bench.sessions.num_tokens) == (3, 8)
    bench.sessions.forget("one", "a")
    bench.flush()
    assert bench.found(start) == 8  # the others hold them
    bench.sessions.forget("one", "")
    assert (bench.found(start), bench.pool.num_free) == (0, 100)


def test_many_sessions_of_one_tenant_do_not_cost_another_its_only_one():
    bench = Bench(total_share=0.5, tenant_share=0.5)
    theirs = bench.answer("two", "only", 20, 0.0)
    for turn in range(50):
        newest = bench.answer("one", f"s{turn}", 6, 1.0 + turn)
    bench.flush()
    assert (bench.found(theirs), bench.found(newest)) == (20, 6)


def test_a_tenant_that_holds_most_does_not_keep_newcomers_out():
    bench = Bench(total_share=0.5, tenant_share=0.5)
    for turn in range(8):
        bench.answer("one", f"s{turn}", 6, 100.0 + turn)
    bench.answer("two", "a", 20, 1.0)  # as the older one, and yet it stays
    newest = bench.answer("three", "a", 10, 2.0)
    bench.flush()
    assert bench.found(newest) == 10
    assert bench.sessions.num_tokens <= 50


def test_all_of_it_gives_way_before_blocks_would_lack():
    bench = Bench(total_share=1.0, tenant_share=1.0)
    first, second = bench.answer("one", "a", 40, 1.0), bench.answer("one", "b", 40, 2.0)
    assert bench.sessions.give_way(30)
    assert bench.found(second) == 40
    bench.pool.allocate(30)
    assert bench.found(first) < 40
    assert bench.sessions.give_way(70)
    assert not bench.sessions.give_way(71)
    assert bench.sessions.num_sessions == 0


def test_a_session_ends_when_nobody_has_come_for_it_in_its_time():
    bench = Bench(max_age_s=10.0)
    first, second = bench.answer("one", "a", 3, 0.0), bench.answer("two", "b", 3, 4.0)
    assert bench.sessions.next_expiry_s == 10.0
    bench.sessions.touch("one", "a", 3.0)
    bench.sessions.expire(12.9)
    assert (bench.sessions.num_sessions, bench.sessions.next_expiry_s) == (2, 13.0)
    bench.sessions.expire(13.0)
    assert (bench.sessions.num_sessions, bench.sessions.next_expiry_s) == (1, 14.0)
    bench.sessions.expire(14.0)
    assert (bench.sessions.num_sessions, bench.sessions.next_expiry_s) == (0, float("inf"))
    assert bench.pool.num_free == 100
    assert bench.found(first) == bench.found(second) == 3  # until their memory is needed


def test_one_name_of_two_tenants_is_two_sessions():
    bench = Bench()
    ours, theirs = bench.answer("one", "home", 3), bench.answer("two", "home", 3)
    assert bench.sessions.forget("two", "home") == 1
    assert (bench.found(ours), bench.found(theirs)) == (3, 0)
    assert bench.sessions.forget("three", "home") == 0
    assert bench.sessions.forget("three", "") == 0
    assert bench.sessions.num_sessions == 1


def test_what_is_forgotten_is_not_found_held_or_not():
    bench = Bench()
    old = bench.answer("one", "a", 3)  # of an earlier turn, held by nobody
    new, other = bench.answer("one", "a", 4), bench.answer("one", "b", 5)
    cut = bench.answer("one", "a", 2, origin=Origin("one", "a"))  # of a turn that was cut
    plain = bench.answer("one", "", 2)
    assert bench.sessions.forget("one", "a") == 1
    assert [bench.found(keys) for keys in (old, new, cut)] == [0, 0, 0]
    assert [bench.found(keys) for keys in (other, plain)] == [5, 2]
    assert bench.sessions.forget("one", "") == 1
    assert [bench.found(keys) for keys in (other, plain)] == [0, 0]
    assert bench.pool.num_free == bench.pool.num_blocks
    assert bench.pool.num_published == 0


def test_a_running_request_goes_on_with_blocks_that_are_forgotten():
    bench = Bench()
    keys = bench.answer("one", "a", 3)
    held = bench.pool.share(keys)
    bench.sessions.forget("one", "a")
    assert bench.pool.num_free == 97
    bench.pool.free(held)
    assert (bench.pool.num_free, bench.found(keys)) == (100, 0)


def test_a_deleted_adapters_sessions_end():
    bench = Bench()
    bench.answer("one", "a", 3, digests=("x", "y"))
    bench.answer("one", "b", 3, digests=("x",))
    bench.answer("one", "c", 3)
    bench.sessions.drop_adapters({"y", "z"})
    assert bench.sessions.num_sessions == 2
    bench.sessions.drop_adapters({"x"})
    assert bench.sessions.num_sessions == 1


def test_of_many_tenants_sessions_the_one_unused_for_longest_goes():
    bench = Bench(max_sessions=3)
    kept = [bench.answer(f"tenant {number}", "a", 2, float(number)) for number in range(5)]
    bench.flush()
    assert [bench.found(keys) for keys in kept] == [0, 0, 2, 2, 2]
    assert bench.sessions.num_sessions == 3


@pytest.mark.parametrize("limits", [{"max_per_tenant": 0}, {"total_share": 0.0}])
def test_it_can_be_switched_off(limits):
    bench = Bench(**limits)
    bench.answer("one", "a", 5)
    assert (bench.sessions.num_sessions, bench.pool.num_free) == (0, 100)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["answer", "answer", "answer", "touch", "forget", "way", "expire"]),
            st.sampled_from(["one", "two", "three"]),
            st.sampled_from(["a", "b", "c", "d"]),
            st.integers(0, 12),
        ),
        max_size=40,
    )
)
def test_bounds_hold_and_nothing_is_lost(steps):
    bench = Bench(40, max_per_tenant=3, tenant_share=0.25, total_share=0.5, max_age_s=9.0)
    sessions = bench.sessions
    for now_s, (what, tenant_id, name, number) in enumerate(steps):
        match what:
            case "answer":
                bench.answer(tenant_id, name, number, float(now_s))
            case "touch":
                sessions.touch(tenant_id, name, float(now_s))
            case "forget":
                sessions.forget(tenant_id, name if number else "")
            case "way":
                assert sessions.give_way(20 + number)
            case "expire":
                sessions.expire(float(now_s))
        held = bench.pool.num_blocks - bench.pool.num_free
        assert sessions.num_blocks == held <= 20
        assert sessions.num_sessions <= 9
        assert not sessions.num_sessions or sessions.next_expiry_s <= now_s + 9.0
    sessions.expire(1e9)
    assert bench.pool.num_free == bench.pool.num_blocks
