"""Admission control against a simple model of itself: caps hold, nothing leaks, time gives once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgelora.errors import QuotaExceededError
from services.gateway.admission import AdmissionControl, Balance
from services.gateway.tenant import TenantQuotas

LIMITS = TenantQuotas(
    max_concurrent_requests=2, max_tokens_per_minute=600, max_requests_per_minute=60
)


def admit(control: AdmissionControl, tokens: int, now_s: float, tenant: str = "a"):
    return control.admit(tenant, LIMITS, tokens, now_s)


def test_the_cap_on_running_requests_holds_and_is_given_back():
    control = AdmissionControl()
    first = admit(control, 1, 0.0)
    admit(control, 1, 0.0)
    with pytest.raises(QuotaExceededError, match=r"at once \(2\)") as refused:
        admit(control, 1, 0.0)
    assert refused.value.retry_after_s == 1.0
    control.settle(first, 1)
    admit(control, 1, 0.0)
    assert control.num_running("a") == 2


def test_what_was_reserved_and_not_used_is_put_back():
    control = AdmissionControl()
    reservation = admit(control, 600, 0.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 0.0)
    control.settle(reservation, 100)
    admit(control, 500, 0.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 0.0)


def test_the_wait_it_names_is_exactly_enough():
    control = AdmissionControl()
    control.settle(admit(control, 600, 0.0), 600)
    with pytest.raises(QuotaExceededError) as refused:
        admit(control, 50, 0.0)
    assert refused.value.retry_after_s == pytest.approx(5.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 50, 4.9)
    admit(control, 50, 5.0)


def test_settling_twice_changes_nothing():
    control = AdmissionControl()
    reservation = admit(control, 600, 0.0)
    control.settle(reservation, 600)
    control.settle(reservation, 0)
    assert control.num_running("a") == 0
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 0.0)


def test_using_more_than_reserved_leaves_a_debt():
    control = AdmissionControl()
    control.settle(admit(control, 1, 0.0), 901)
    with pytest.raises(QuotaExceededError) as refused:
        admit(control, 1, 0.0)
    assert refused.value.retry_after_s == pytest.approx(30.2)  # 301 of debt and the 1 asked for


def test_an_idle_tenant_saves_no_more_than_a_minute():
    control = AdmissionControl()
    control.settle(admit(control, 600, 0.0), 600)
    admit(control, 600, 3600.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 3600.0)


def test_a_clock_that_jumps_back_gives_nothing_F17_T40():
    control = AdmissionControl()
    control.settle(admit(control, 600, 1000.0), 600)
    for now_s in (0.0, 1000.0, 500.0, 1000.0):
        with pytest.raises(QuotaExceededError):
            admit(control, 1, now_s)
    admit(control, 10, 1001.0)


def test_a_restored_balance_counts_instead_of_a_full_bucket():
    control = AdmissionControl()
    control.restore("a", Balance(tokens=5.0, requests=9.0, at_s=0.0))
    with pytest.raises(QuotaExceededError):
        admit(control, 6, 0.0)
    admit(control, 5, 0.0)


def test_requests_have_a_bucket_of_their_own_and_are_not_put_back():
    control = AdmissionControl()
    for _ in range(60):
        control.settle(admit(control, 1, 0.0), 0)
    with pytest.raises(QuotaExceededError, match="60 requests a minute") as refused:
        admit(control, 1, 0.0)
    assert refused.value.field == "max_requests_per_minute"
    assert refused.value.retry_after_s == pytest.approx(1.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 0.9)
    admit(control, 1, 1.0)


def test_a_refused_request_takes_nothing():
    control = AdmissionControl()
    running = [admit(control, 1, 0.0) for _ in range(2)]
    for _ in range(100):
        with pytest.raises(QuotaExceededError):
            admit(control, 1, 0.0)
    control.settle(running[0], 0)
    with pytest.raises(QuotaExceededError):
        admit(control, 600, 0.0)
    balance = control.balance("a")
    assert (balance.tokens, balance.requests) == (599, 58)


def test_a_use_below_nothing_gives_nothing_T40():
    control = AdmissionControl()
    control.settle(admit(control, 600, 0.0), -1000)
    admit(control, 600, 0.0)
    with pytest.raises(QuotaExceededError):
        admit(control, 1, 0.0)


def test_each_refusal_names_its_quota_and_limit():
    control = AdmissionControl()
    with pytest.raises(QuotaExceededError) as too_large:
        admit(control, 601, 0.0)
    assert too_large.value.field == "max_tokens_per_minute"
    assert too_large.value.metadata["max_tokens_per_minute"] == "600"
    assert too_large.value.retry_after_s is None
    admit(control, 1, 0.0), admit(control, 1, 0.0)
    with pytest.raises(QuotaExceededError) as too_many:
        admit(control, 1, 0.0)
    assert too_many.value.field == "max_concurrent_requests"


class AnyHistory(RuleBasedStateMachine):
    """Random requests of two tenants, in any order, under a clock that also goes back."""

    def __init__(self) -> None:
        super().__init__()
        self.control = AdmissionControl()
        self.now_s = 1000.0
        self.earliest_s = self.latest_s = self.now_s
        self.running = {"a": [], "b": []}
        self.used = {"a": 0, "b": 0}
        self.admitted = {"a": 0, "b": 0}

    @rule(tenant=st.sampled_from("ab"), tokens=st.integers(1, 700))
    def admit(self, tenant, tokens):
        is_full = len(self.running[tenant]) >= LIMITS.max_concurrent_requests
        try:
            reservation = admit(self.control, tokens, self.now_s, tenant)
        except QuotaExceededError:
            # Never refused while there is room for sure.
            assert (
                is_full
                or self.taken(tenant) + tokens > 600
                or self.admitted[tenant] >= LIMITS.max_requests_per_minute
            )
            return
        assert not is_full
        self.admitted[tenant] += 1
        self.running[tenant].append(reservation)

    @rule(tenant=st.sampled_from("ab"), share=st.floats(0, 1))
    def settle(self, tenant, share):
        if self.running[tenant]:
            reservation = self.running[tenant].pop(0)
            used = int(reservation.reserved_tokens * share)
            self.used[tenant] += used
            self.control.settle(reservation, used)

    @rule(seconds=st.floats(-30, 30))
    def move_clock(self, seconds):
        self.now_s += seconds
        self.earliest_s = min(self.earliest_s, self.now_s)
        self.latest_s = max(self.latest_s, self.now_s)

    def taken(self, tenant) -> int:
        held = sum(reservation.reserved_tokens for reservation in self.running[tenant])
        return self.used[tenant] + held

    @invariant()
    def nobody_ever_gets_more_than_a_bucket_and_the_time_that_passed(self):
        passed_s = self.latest_s - self.earliest_s
        for tenant, running in self.running.items():
            assert self.taken(tenant) <= 600 + 10 * passed_s + 1e-6
            assert self.admitted[tenant] <= 60 + passed_s + 1e-6
            assert self.control.num_running(tenant) == len(running)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=100, deadline=None)
