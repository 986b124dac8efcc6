"""The forecast as the store uses it, on real files and clocks that obey."""

import json
import random
import re
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.adapter_store.forecast.habit_book import MAX_SIZE, MAX_TENANT_SIZE
from services.adapter_store.forecast.habits import UserHabits
from services.adapter_store.forecast.settings import WarmUpSettings
from services.adapter_store.forecast.warm_up import QUIET_S
from tests.support.habit_node import (
    MIB,
    at_remote,
    copy,
    digest,
    habit_node,
    on_flash,
    shelf,
    slot,
    unix_s,
    worker,
)

A, B, C = digest(1), digest(2), digest(3)
ROUTINE = {7: A, 12: B, 21: C}


def test_a_woken_worker_gets_the_adapter_of_the_hour_first(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE)
        node.pass_s(7 * 3600)
        node.warm_up.note_start()
        assert node.plan(num_slots=1) == [A]


def test_state_tells_chances_and_reasons(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE)
        node.pass_s(7 * 3600)
        state = node.warm_up.state("tenant")
        assert state.is_enabled
        assert state.num_uses == 30
        assert state.forecasts[0].digest == A
        assert "after the adapter before, after a break" in state.forecasts[0].reasons
        assert sum(each.probability for each in state.forecasts) <= 1.0
        assert node.warm_up.state("nobody").forecasts == []


def test_state_looks_at_every_user_once_however_many_adapters_it_tells_of(tmp_path, monkeypatch):
    with habit_node(tmp_path) as node:
        for user in range(20):
            for adapter in (A, B, C):
                node.warm_up.note_use("tenant", str(user), adapter)
        looks = []
        outlook = UserHabits.outlook
        monkeypatch.setattr(
            UserHabits, "outlook", lambda *given: looks.append(1) or outlook(*given)
        )
        assert len(node.warm_up.state("tenant").forecasts) == 3
        assert len(looks) == 20


def test_what_was_asked_is_not_asked_again_until_it_should_have_come(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE)
        node.warm_up.note_start()
        assert set(node.plan()) == {A, B, C}
        assert node.plan() == []
        node.pass_s(31)
        assert set(node.plan()) == {A, B, C}


def test_restores_wait_for_quiet(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE)
        node.warm_up.note_use("tenant", "user", A)
        room = shelf(free_bytes=100 * MIB)
        assert node.warm_up.plan_flash(room, at_remote) == []
        node.pass_s(QUIET_S)
        moves = node.warm_up.plan_flash(room, at_remote)
        assert {move.digest for move in moves} == {A, B, C}
        assert node.warm_up.plan_flash(room, at_remote) == []


async def test_habits_survive_a_restart_and_the_user_is_a_hash(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE, user="alice@example.org")
        node.warm_up.note_start()  # as the restart will be
        expected = node.forecasts()
        await node.warm_up.save()
        now_s = node.now_s
    assert not any(b"alice" in path.read_bytes() for path in tmp_path.iterdir())
    with habit_node(tmp_path, now_s=now_s, boot_s=5.0) as node:
        assert node.forecasts() == pytest.approx(expected)
        assert node.warm_up.state("tenant").num_uses == 30


async def test_off_learns_nothing_plans_nothing_and_stays_off(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(5, ROUTINE)
        await node.warm_up.set_enabled("tenant", False)
        node.live(5, ROUTINE)
        assert node.warm_up.state("tenant").num_uses == 15
        assert node.warm_up.state("tenant").forecasts == ()
        node.warm_up.note_start()
        assert node.plan() == []
        assert node.warm_up.plan_flash(shelf(free_bytes=100 * MIB), at_remote) == []
        await node.warm_up.save()
        now_s = node.now_s
    with habit_node(tmp_path, now_s=now_s) as node:
        assert not node.warm_up.state("tenant").is_enabled
        assert node.plan() == []
        await node.warm_up.set_enabled("tenant", True)
        assert set(node.plan()) == {A, B, C}


async def test_the_switch_of_one_tenant_is_not_the_others(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(5, {7: A}, tenant_id="off")
        node.live(5, {7: B}, tenant_id="on")
        await node.warm_up.set_enabled("off", False)
        node.warm_up.note_start()
        assert node.plan() == [B]


async def test_an_adapter_of_a_tenant_that_is_off_is_not_driven_out_while_it_is_new(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(5, {7: A})
        node.warm_up.note_start()
        recent = slot(B, now_s=node.boot_s, idle_s=60.0)
        assert node.plan(recent, num_slots=1) == []
        last_used_s = node.now_s - 3600
        node.pass_s(QUIET_S)
        moves = node.warm_up.plan_flash(shelf(copy(B, last_used_s=last_used_s)), at_remote)
        assert [move for move in moves if move.evict_digests and move.chance < 0.9] == []


async def test_forgetting_leaves_no_trace_of_a_tenant(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(20, ROUTINE, tenant_id="gone-tenant", user="bob")
        node.live(20, {9: B}, tenant_id="kept-tenant")
        await node.warm_up.save()
        before = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert A.encode() in before
        users = [key[1] for key, _ in node.store.habits() if key[0] == "gone-tenant"]
        await node.warm_up.forget("gone-tenant")
        assert node.warm_up.state("gone-tenant").num_uses == 0
        await node.warm_up.save()
        after = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        for trace in ("gone-tenant", A, C, *users):
            assert trace.encode() not in after
        assert set(node.forecasts("kept-tenant")) == {B}


async def test_forgetting_does_not_switch_on_again(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(5, ROUTINE)
        await node.warm_up.set_enabled("tenant", False)
        await node.warm_up.forget("tenant")
        assert not node.warm_up.state("tenant").is_enabled
        found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"tenant" not in found.replace(b"tenant TEXT", b"").replace(b"(tenant, user)", b"")


async def test_a_deleted_adapter_is_gone_from_habits_and_file(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(20, ROUTINE)
        await node.warm_up.save()
        node.warm_up.forget_adapter("tenant", A)
        await node.warm_up.save()
        assert A not in node.forecasts()
        assert not any(A.encode() in path.read_bytes() for path in tmp_path.iterdir())
        for only in (B, C):
            node.warm_up.forget_adapter("tenant", only)
        await node.warm_up.save()
        assert dict(node.store.habits()) == {}


async def test_storage_that_fails_loses_nothing(tmp_path, monkeypatch):
    with habit_node(tmp_path) as node:
        node.live(5, ROUTINE)

        def full(*_):
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(node.store, "write", full)
        await node.warm_up.save()
        assert dict(node.store.habits()) == {}
        monkeypatch.undo()
        await node.warm_up.save()
        assert len(dict(node.store.habits())) == 1


async def test_what_was_spent_stays_spent_over_a_restart(tmp_path):
    budget = WarmUpSettings(bytes_per_hour=4 * MIB)
    with habit_node(tmp_path, settings=budget) as node:
        node.live(5, ROUTINE)
        node.warm_up.note_start()
        assert len(node.plan()) == 2
        await node.warm_up.save()
        now_s = node.now_s
    with habit_node(tmp_path, settings=budget, now_s=now_s + 60) as node:
        assert node.plan() == []
        node.pass_s(3600)
        node.warm_up.note_start()
        assert len(node.plan()) == 2


async def test_rows_that_can_not_be_read_are_dropped_and_the_others_kept(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(5, ROUTINE)
        node.live(5, ROUTINE, tenant_id="other")
        await node.warm_up.save()
        now_s = node.now_s
        (key, text) = next(each for each in node.store.habits() if each[0][0] == "tenant")
        document = json.loads(text)
        for number, damage in enumerate(
            (
                "{",
                "[]",
                "7",
                json.dumps({**document, "last_use": 1e300}),
                json.dumps({**document, "weights": [[], []]}),
                json.dumps({**document, "used_on": {"x": "never"}}),
                json.dumps({**document, "numbers": dict.fromkeys(document["numbers"], "0")}),
                json.dumps({**document, "previous": "9"}),
                text.replace('"cells": {"": {', '"cells": {"": {"9": 1.0, '),
                re.sub('"origin": [0-9.]+', '"origin": 1e9', text),
                text.replace('"cells": {', '"cells": {"": {"a": 1e999}, '),
            )
        ):
            node.store.write({("tenant", f"damaged {number}"): damage}, (), {})
        node.store.write({}, [key], {})
    with habit_node(tmp_path, now_s=now_s) as node:
        assert node.warm_up.state("tenant").num_uses == 0
        assert node.warm_up.state("other").num_uses == 15
        await node.warm_up.save()
        assert {key[0] for key, _ in node.store.habits()} == {"other"}


def test_a_flood_of_users_does_not_crowd_out_another_tenant(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE, tenant_id="quiet")
        for number in range(3000):
            node.warm_up.note_use("loud", f"user {number}", digest(number % 50 + 100))
        book = node.warm_up._book
        assert book._sizes["loud"] <= MAX_TENANT_SIZE
        assert book.size <= MAX_SIZE
        assert node.warm_up.state("quiet").num_uses == 30
        node.warm_up.note_start()
        node.warm_up.plan_memory(worker(num_slots=4), on_flash)  # the loud one is looked at first
        for _ in range(10):
            node.pass_s(31)
            moves = node.warm_up.plan_memory(worker(num_slots=4), on_flash)
        assert A in [move.digest for move in moves if move.tenant_id == "quiet"]


def test_the_longest_silent_user_is_forgotten_first(tmp_path, monkeypatch):
    monkeypatch.setattr("services.adapter_store.forecast.habit_book.MAX_TENANT_SIZE", 330)
    with habit_node(tmp_path) as node:
        for user in ("old", "middle", "old", "new", "newer", "newest"):
            node.warm_up.note_use("tenant", user, A)
            node.pass_s(3600)
        users = node.warm_up._book._users["tenant"]
        kept = [node.warm_up._hash("tenant", user) in users for user in ("old", "middle", "newest")]
        assert kept == [True, False, True]


def test_wrong_clocks_are_survived(tmp_path):
    with habit_node(tmp_path, now_s=0.0) as node:  # no clock at all: 1970
        node.live(3, ROUTINE)
        assert set(node.forecasts()) == {A, B, C}
        node.warm_up.note_start()
        assert node.plan()
        node.now_s = unix_s("2026-03-02", 7)  # set by the network
        node.live(5, ROUTINE)
        before, right_s = node.forecasts(), node.now_s
        for years in (-10, 20, -60):
            node.now_s = right_s + years * 365 * 86_400
            node.boot_s += 60
            assert sum(node.forecasts().values()) <= 1.0
            node.warm_up.note_use("tenant", "user", A)
        node.now_s = right_s
        assert node.forecasts().keys() == before.keys()


async def test_a_clock_set_far_ahead_over_a_restart_forgets_no_habit(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(20, ROUTINE)
        await node.warm_up.save()
        now_s = node.now_s
    with habit_node(tmp_path, now_s=now_s + 20 * 365 * 86_400) as node:
        assert set(node.forecasts()) == {A, B, C}
        await node.warm_up.save()
    with habit_node(tmp_path, now_s=now_s + 7 * 3600) as node:
        node.warm_up.note_start()
        assert node.plan(num_slots=1) == [A]


def test_the_same_uses_give_the_same_plans(tmp_path):
    plans = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with habit_node(tmp_path / name) as node:
            chance = random.Random(7)
            found = []
            for _ in range(300):
                node.pass_s(chance.uniform(10, 20_000))
                node.warm_up.note_use("t", chance.choice("uvw"), digest(chance.randrange(12)))
                if chance.random() < 0.2:
                    node.warm_up.note_start()
                found.append(node.plan(num_slots=3))
            plans.append((found, node.warm_up.state("t")))
    assert plans[0] == plans[1]
    assert any(plans[0][0])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "u"]),
            st.integers(0, 9),
            st.one_of(st.floats(0, 7200), st.floats(0, 1e6)),
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_no_trace_of_uses_spends_more_than_the_budget(tmp_path_factory, steps):
    budget = WarmUpSettings(bytes_per_hour=10 * MIB, joules_per_hour=1.0)
    with habit_node(tmp_path_factory.mktemp("habits"), settings=budget) as node:
        started_s, size_bytes, joules = node.boot_s, 0.0, 0.0
        for tenant_id, number, elapsed_s, is_start in steps:
            node.pass_s(elapsed_s)
            node.warm_up.note_use(tenant_id, "user", digest(number))
            if is_start:
                node.warm_up.note_start()
            moves = node.warm_up.plan_memory(worker(num_slots=6), on_flash)
            node.pass_s(QUIET_S)
            moves += node.warm_up.plan_flash(shelf(free_bytes=100 * MIB), at_remote)
            size_bytes += sum(move.spending.size_bytes for move in moves)
            joules += sum(move.spending.joules for move in moves)
            hours = 1 + (node.boot_s - started_s) / 3600
            assert size_bytes <= budget.bytes_per_hour * hours * (1 + 1e-9)
            assert joules <= budget.joules_per_hour * hours * (1 + 1e-9)


def test_measured_costs_decide_what_is_worth_it(tmp_path):
    with habit_node(tmp_path) as node:
        node.live(10, ROUTINE)
        node.pass_s(3 * 3600)  # at night
        for _ in range(100):
            node.warm_up.note_load(1e-6)  # as good as free to load on demand
        assert node.plan() == []
