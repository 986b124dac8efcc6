"""Plans: worth their energy, within the budget, and never in place of what is as likely."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.adapter_store.forecast.budget import Budget, Spending
from services.adapter_store.forecast.chances import Chance, combine, is_clearly_above, shared_out
from services.adapter_store.forecast.flash_plan import plan_flash
from services.adapter_store.forecast.memory_plan import plan_memory
from services.adapter_store.forecast.moves import StoredAdapter
from services.adapter_store.forecast.settings import TierCosts, WarmUpSettings
from tests.support.habit_node import (
    MIB,
    at_remote,
    copy,
    digest,
    on_flash,
    shelf,
    slot,
    worker,
)

COSTS = TierCosts(load_s=0.02, restore_s=1.5)
NOW_S = 1e6


def chance(number, soon, day=None, tenant="t"):
    return Chance(
        tenant_id=tenant,
        digest=digest(number),
        soon=soon,
        within_a_day=soon if day is None else day,
    )


def memory(chances, slots, stored=on_flash, budget=None, **options):
    return plan_memory(
        chances,
        slots,
        stored,
        now_s=NOW_S,
        costs=COSTS,
        settings=WarmUpSettings(**options),
        budget=budget or Budget(1e12, 1e12),
    )


def flash(chances, place, stored=at_remote, budget=None, **options):
    return plan_flash(
        chances,
        place,
        stored,
        now_s=NOW_S,
        costs=COSTS,
        settings=WarmUpSettings(**options),
        budget=budget or Budget(1e12, 1e12),
    )


def names(moves):
    return [move.digest for move in moves]


def idle(number, **options):
    return slot(digest(number), now_s=NOW_S, **options)


def test_empty_slots_are_filled_likeliest_first():
    moves = memory([chance(1, 0.2), chance(2, 0.5), chance(3, 0.1)], worker(num_slots=2))
    assert names(moves) == [digest(2), digest(1)]
    assert [move.evict_digests for move in moves] == [(), ()]


def test_what_is_not_worth_its_energy_stays():
    # 0.08 J a load at 1 ms a joule: a chance of 0.4 % of 20 ms.
    assert memory([chance(1, 0.003)], worker()) == []
    assert names(memory([chance(1, 0.005)], worker())) == [digest(1)]
    assert memory([chance(1, 0.5)], worker(), min_saving_s_per_joule=1.0) == []


def test_the_least_likely_idle_one_goes():
    slots = worker(idle(1), idle(2), idle(3), num_slots=3)
    moves = memory([chance(1, 0.1), chance(2, 0.02), chance(3, 0.3), chance(4, 0.6)], slots)
    assert [(move.digest, move.evict_digests) for move in moves] == [(digest(4), (digest(2),))]


def test_what_may_not_go_stays():
    for kept in (
        worker(idle(1, references=1), num_slots=1),
        worker(idle(1, loading=True), num_slots=1),
        worker(idle(1), num_slots=1, kept=[digest(1)]),
        worker(idle(1, idle_s=10.0), num_slots=1),  # somebody talks to it
    ):
        assert memory([chance(2, 0.9)], kept) == []


def test_what_is_elsewhere_refused_gone_or_not_on_flash_is_not_loaded():
    wanted = [chance(1, 0.9)]
    assert memory(wanted, worker(elsewhere=[digest(1)])) == []
    assert memory(wanted, worker(idle(1))) == []
    assert memory(wanted, worker(), stored=lambda tenant, name: None) == []
    assert memory(wanted, worker(), stored=at_remote) == []


def test_a_slightly_likelier_one_swaps_nothing():
    assert memory([chance(1, 0.3), chance(2, 0.4)], worker(idle(1), num_slots=1)) == []


def test_one_tenant_can_not_take_all_slots():
    flood = [chance(number, 0.99, tenant="loud") for number in range(50)]
    quiet = [chance(100, 0.2, tenant="quiet"), chance(101, 0.1, tenant="quiet")]
    moves = memory([*flood, *quiet], worker(num_slots=4))
    assert [move.tenant_id for move in moves] == ["loud", "loud", "quiet", "quiet"]


def test_one_tenant_can_not_spend_the_budget_of_all():
    budget = Budget(20 * MIB, 100.0)
    budget.refill(0.0, 2)
    loud = [chance(number, 0.9, tenant="loud") for number in range(50)]
    assert len(memory(loud, worker(num_slots=60), budget=budget)) == 5
    quiet = [chance(100 + number, 0.5, tenant="quiet") for number in range(8)]
    assert len(memory(quiet, worker(num_slots=60), budget=budget)) == 5


def test_the_remote_is_asked_for_what_is_likely_today():
    moves = flash([chance(1, 0.01, 0.6), chance(2, 0.0, 0.001)], shelf(free_bytes=100 * MIB))
    assert names(moves) == [digest(1)]
    assert names(flash([chance(1, 0.6)], shelf(free_bytes=None))) == [digest(1)]


def test_flash_makes_room_only_by_what_is_together_clearly_less_likely():
    def stored(tenant_id, name):
        return StoredAdapter(
            flash_bytes=4 * MIB, is_on_flash=name != digest(1), package_bytes=9 * MIB
        )

    copies = [copy(digest(2)), copy(digest(3))]
    apart = [chance(1, 0.0, 0.6), chance(2, 0.0, 0.1), chance(3, 0.0, 0.1)]
    (move,) = flash(apart, shelf(*copies), stored)
    assert set(move.evict_digests) == {digest(2), digest(3)}
    # Each is less likely, but to lose both costs as much.
    close = [chance(1, 0.0, 0.5), chance(2, 0.0, 0.25), chance(3, 0.0, 0.25)]
    assert flash(close, shelf(*copies), stored) == []


def test_flash_keeps_what_is_in_use_new_or_unknown_but_recent():
    wanted = [chance(1, 0.0, 0.5)]
    for kept in (
        copy(digest(2), in_use=True),
        copy(digest(2), last_used_s=NOW_S - 30),
        copy(digest(2), last_used_s=NOW_S - 3600),  # of a tenant that is switched off, say
    ):
        assert flash(wanted, shelf(kept)) == []
    assert names(flash(wanted, shelf(copy(digest(2), last_used_s=0.0)))) == [digest(1)]


def test_what_has_no_package_or_is_coming_is_not_brought():
    wanted = [chance(1, 0.9)]
    room = {"free_bytes": 100 * MIB}

    def only_copy(tenant_id, name):
        return StoredAdapter(flash_bytes=1, is_on_flash=False, package_bytes=None)

    assert flash(wanted, shelf(**room), only_copy) == []
    assert flash(wanted, shelf(**room, coming=[digest(1)])) == []
    assert flash(wanted, shelf(**room), on_flash) == []


CHANCES = st.lists(
    st.builds(
        chance,
        st.integers(0, 30),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from(["t", "u", "v"]),
    ),
    max_size=40,
    unique_by=lambda each: (each.tenant_id, each.digest),
)
SLOTS = st.lists(
    st.builds(
        idle,
        st.integers(0, 40),
        idle_s=st.floats(0, 1e5),
        references=st.integers(0, 1),
        loading=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda each: each.digest,
)


@settings(max_examples=150, deadline=None)
@given(CHANCES, SLOTS, st.integers(0, 8), st.floats(0, 1e8), st.floats(0, 5))
def test_no_memory_plan_breaks_a_promise(chances, slots, num_slots, size_bytes, joules):
    budget = Budget(size_bytes, joules)
    budget.refill(0.0, len({each.tenant_id for each in chances}))
    moves = memory(chances, worker(*slots, num_slots=num_slots), budget=budget)
    overall = combine((each.digest, each.soon) for each in chances)
    held = {each.digest: each for each in slots}
    evicted = [gone for move in moves for gone in move.evict_digests]
    assert len(set(names(moves))) == len(moves)
    assert not set(names(moves)) & held.keys()
    assert len(set(evicted)) == len(evicted)
    assert len(slots) - len(evicted) + len(moves) <= max(num_slots, len(slots))
    for move in moves:
        for gone in move.evict_digests:
            assert not held[gone].num_references
            assert not held[gone].is_loading
            assert is_clearly_above(overall[move.digest], overall.get(gone, 0.0))
    assert sum(move.spending.size_bytes for move in moves) <= size_bytes
    assert sum(move.spending.joules for move in moves) <= joules


@settings(max_examples=150, deadline=None)
@given(
    CHANCES,
    st.lists(
        st.builds(
            copy,
            st.integers(0, 40).map(digest),
            size_bytes=st.integers(1, 4 * MIB),
            last_used_s=st.floats(0, NOW_S),
            in_use=st.booleans(),
        ),
        max_size=10,
        unique_by=lambda each: each.digest,
    ),
    st.integers(-MIB, 8 * MIB),
    st.floats(0, 1e8),
)
def test_no_flash_plan_breaks_a_promise(chances, copies, free_bytes, size_bytes):
    kept = {each.digest: each for each in copies}

    def stored(tenant_id, name):
        return StoredAdapter(flash_bytes=2 * MIB, is_on_flash=name in kept, package_bytes=9 * MIB)

    moves = flash(chances, shelf(*copies, free_bytes=free_bytes), stored, Budget(size_bytes, 1e9))
    overall = combine((each.digest, max(each.soon, each.within_a_day)) for each in chances)
    evicted = [gone for move in moves for gone in move.evict_digests]
    assert len(set(evicted)) == len(evicted)
    freed_bytes = sum(kept[gone].size_bytes for gone in evicted)
    assert not moves or free_bytes + freed_bytes >= 2 * MIB * len(moves)
    for move in moves:
        for gone in move.evict_digests:
            assert not kept[gone].is_in_use
            assert is_clearly_above(overall[move.digest], overall.get(gone, 0.0))
    assert sum(move.spending.size_bytes for move in moves) <= size_bytes


@settings(max_examples=100, deadline=None)
@given(CHANCES, st.integers(0, 20))
def test_places_are_shared_out_once_and_to_all(chances, num_places):
    placed = shared_out(chances, num_places, lambda each: each.soon)
    assert len(placed) == min(num_places, len(chances))
    assert len({(each.tenant_id, each.digest) for each in placed}) == len(placed)
    tenants = {each.tenant_id for each in chances}
    part = num_places // max(1, len(tenants))
    for tenant in tenants:
        own = sum(each.tenant_id == tenant for each in chances)
        assert sum(each.tenant_id == tenant for each in placed) >= min(part, own)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-100, 1e4),
            st.integers(0, 4),
            st.sampled_from("abc"),
            st.floats(0, 50),
            st.floats(0, 5),
        ),
        max_size=60,
    )
)
def test_no_hour_spends_more_than_twice_its_budget_and_no_run_more_than_its_rate(steps):
    # A bucket that holds an hour's worth: what it held, and what came in.
    budget = Budget(100.0, 10.0)
    now_s, spent, spent_by = 0.0, Spending(0.0, 0.0), {}
    for elapsed_s, num_tenants, tenant, size_bytes, joules in steps:
        now_s += max(0.0, elapsed_s)
        budget.refill(elapsed_s, num_tenants)
        if budget.spend(tenant, Spending(size_bytes, joules)):
            spent = Spending(spent.size_bytes + size_bytes, spent.joules + joules)
            spent_by[tenant] = spent_by.get(tenant, 0.0) + size_bytes
        assert spent.size_bytes <= 100.0 * (1 + now_s / 3600) + 1e-6
        assert spent.joules <= 10.0 * (1 + now_s / 3600) + 1e-6
        assert budget.left.size_bytes >= 0.0
        assert budget.left.joules >= 0.0
