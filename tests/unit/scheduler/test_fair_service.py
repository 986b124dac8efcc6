"""A minute of load in simulated time: who gets what, and who waits how long."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from services.scheduler import schedule as schedule_module
from services.scheduler.request import Priority
from tests.support.schedules import make_limits, make_request, make_schedule
from tests.support.simulated_node import SimulatedNode, Work, jain_index, percentile

_MINUTE_S = 60.0


class Load:
    """Clients of a node with 16 places, as the default settings have it."""

    def __init__(self, max_running=16):
        limits = make_limits(max_waiting=256, max_waiting_per_tenant=64)
        self.node = SimulatedNode(
            make_schedule(limits=limits, max_running=max_running, lease_s=1000.0)
        )
        self.random = Random(7)

    def flood(self, tenant, per_second=40, prompt=100, priority=Priority.INTERACTIVE):
        """Sends at a fixed rate, whatever comes back."""
        for number in range(int(_MINUTE_S * per_second)):
            self.node.at(number / per_second, partial(self.send, tenant, prompt, priority))

    def keep_asking(self, tenant, num_clients, prompt=100, pause_s=0.0):
        """Each client asks, waits for the answer, pauses, and asks again."""

        def ask(_now_s=0.0):
            due_s = self.node.now_s + pause_s * self.random.uniform(0.5, 1.5)
            self.node.at(due_s, partial(self.send, tenant, prompt, on_end=ask))

        for _ in range(num_clients):
            ask()

    def send(self, tenant, prompt, priority=Priority.INTERACTIVE, on_end=lambda now_s: None):
        num_output = self.random.randint(20, 200)
        request = make_request(
            tenant,
            priority=priority,
            estimated_tokens=prompt + num_output,
            asked_at_s=self.node.now_s,
        )
        self.node.submit(Work(request=request, num_output_tokens=num_output, on_end=on_end))

    def p99_s(self, tenant):
        """From the second request on: nothing is kept for a tenant nobody has heard of."""
        return percentile(self.node.waits_s[tenant][1:], 0.99)


def light_p99_s(*, with_flooder, priority=Priority.INTERACTIVE):
    load = Load()
    load.keep_asking("light", num_clients=1, pause_s=0.3)
    if with_flooder:
        load.flood("flooder", per_second=100, priority=priority)
    load.node.run(_MINUTE_S)
    assert len(load.node.waits_s["light"]) >= 15
    return load.p99_s("light")


@pytest.mark.parametrize("priority", [Priority.INTERACTIVE, Priority.BATCH])
def test_a_light_tenant_hardly_notices_a_flooder_T15(priority):
    solo_s = light_p99_s(with_flooder=False)
    assert light_p99_s(with_flooder=True, priority=priority) <= 2 * solo_s


def test_without_kept_places_it_would_wait_for_the_flooders_to_end(monkeypatch):
    """The control: the test above measures the rule, not an easy load."""
    monkeypatch.setattr(schedule_module, "kept_places", lambda num_places: 0)
    assert light_p99_s(with_flooder=True) > 2 * light_p99_s(with_flooder=False)


def test_an_unheard_of_tenant_waits_for_the_first_lease_that_ends():
    load = Load()
    load.flood("flooder")
    load.keep_asking("new", num_clients=1, pause_s=5.0)
    load.node.run(_MINUTE_S)
    # 16 leases of 2.3 s on average: one ends every 0.14 s, and takes at most 0.1 + 199 * 0.02 s.
    assert 0.1 < load.node.waits_s["new"][0] <= 0.1 + 4.08
    assert max(load.node.waits_s["new"][1:]) <= 0.2


def test_two_light_tenants_hardly_notice_a_flooder_either_T15():
    p99_s = {}
    for with_flooder in (False, True):
        load = Load()
        for tenant in ("one", "two"):
            load.keep_asking(tenant, num_clients=1, pause_s=0.3)
        if with_flooder:
            load.flood("flooder")
        load.node.run(_MINUTE_S)
        p99_s[with_flooder] = max(load.p99_s(tenant) for tenant in ("one", "two"))
    assert p99_s[True] <= 2 * p99_s[False]


def test_tenants_that_want_more_than_there_is_get_the_same_beside_a_flooder_T15():
    load = Load()
    load.flood("flooder", per_second=100)
    for tenant in ("one", "two", "three"):
        load.keep_asking(tenant, num_clients=8)
    load.node.run(_MINUTE_S)
    served = load.node.served_tokens
    assert load.node.ends["refused"] > 1000
    assert jain_index([served[tenant] for tenant in ("flooder", "one", "two", "three")]) >= 0.95


def test_prompts_ten_times_as_long_earn_no_more_tokens_T15():
    load = Load()
    load.keep_asking("long", num_clients=32, prompt=1000)
    load.keep_asking("short", num_clients=32, prompt=100)
    load.node.run(_MINUTE_S)
    served = load.node.served_tokens
    largest = 1000 + 200
    # Ended requests lag behind the charged ones by what is in flight at the end.
    assert abs(served["long"] - served["short"]) <= 2 * (2 * largest) + 16 * largest
    assert jain_index([served["long"], served["short"]]) >= 0.95


def test_connections_and_users_of_one_tenant_share_one_counter_T16():
    """A hundred clients of one tenant get no more than eight of another."""
    load = Load()
    load.keep_asking("many", num_clients=50)
    load.keep_asking("few", num_clients=10)
    load.node.run(_MINUTE_S)
    served = load.node.served_tokens
    assert jain_index([served["many"], served["few"]]) >= 0.95


def test_interactive_requests_never_wait_for_a_batch_flood():
    load = Load()
    load.flood("flooder", priority=Priority.BATCH)
    load.keep_asking("driver", num_clients=16, pause_s=0.3)
    load.node.run(_MINUTE_S)
    assert load.p99_s("driver") == 0.1
    assert load.node.max_leases <= 2 * 16


def test_a_lone_tenant_may_use_every_place():
    load = Load()
    load.flood("only")
    load.node.run(_MINUTE_S)
    assert load.node.max_leases == 16
