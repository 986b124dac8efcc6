"""What tenants used: every end counted once, what runs counted as far as it got, nothing lost."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgelora.errors import CancelledRequestError, InternalError, QuotaExceededError
from services.gateway.encoding.ended import EndedEncoding
from services.gateway.ended_generation import EndedGeneration
from services.gateway.ended_request import EndedRequest
from services.gateway.usage import Usage, UsageTotal, Used
from services.gateway.usage_ledger import UsageLedger
from tests.support.fake_clock import FakeClock


def ended(tenant_id: str = "a", prompt: int = 10, output: int = 5, **fields) -> EndedGeneration:
    values = {
        "tenant_id": tenant_id,
        "priority": 1,
        "adapter_digests": (),
        "queue_s": 0.0,
        "time_to_first_token_s": 0.1,
        "total_s": 1.0,
        "num_prompt_tokens": prompt,
        "num_output_tokens": output,
        "engine_s": 0.5,
        "degradations": (),
        "error": None,
    }
    return EndedGeneration(**(values | fields))


def usage(kept=None, power_watts=None) -> Usage:
    return Usage(kept or {}, power_watts=power_watts, wall_clock=FakeClock(1000.0))


def test_ends_are_summed_by_tenant():
    counted = usage()
    for _ in range(2):
        counted.note_end(ended("a"))
    counted.note_end(ended("b", error=InternalError("x")))
    assert counted.of("a") == Used(
        num_requests=2, num_prompt_tokens=20, num_output_tokens=10, engine_s=1.0
    )
    assert counted.of("b").num_requests == 1
    assert counted.of("nobody") == Used()
    assert counted.totals()["a"].since_s == 1000.0


def test_what_the_tenants_own_quota_refused_is_no_request():
    counted = usage()
    counted.note_end(ended(error=QuotaExceededError("x"), prompt=0, output=0, engine_s=0.0))
    assert counted.of("a") == Used(num_refused=1)


def test_tokens_that_were_encoded_are_not_those_that_were_generated():
    def encoded(**fields):
        values = {name: getattr(ended(), name) for name in EndedRequest.__slots__}
        values |= {"num_output_tokens": 0, "operation": "embed", "num_texts": 1}
        return EndedEncoding(**(values | fields))

    counted = usage()
    counted.note_end(ended("a", prompt=10, output=0, engine_s=1.0))
    counted.note_end(encoded(tenant_id="a", num_prompt_tokens=10, engine_s=0.01))
    cut = {"error": CancelledRequestError("x"), "engine_s": 0.0}
    counted.note_end(encoded(tenant_id="b", num_prompt_tokens=20, **cut))
    counted.note_end(ended("c", prompt=20, output=0, **cut))
    assert counted.of("a").num_prompt_tokens == 20
    assert counted.of("b").engine_s == pytest.approx(0.02)
    assert counted.of("c").engine_s == pytest.approx(2.0)


def test_a_cut_request_costs_what_tokens_cost_on_average():
    counted = usage()
    counted.note_end(ended(error=CancelledRequestError("x"), engine_s=0.0))
    assert counted.of("a").engine_s == 0.0  # nothing is known of the node yet
    counted.note_end(ended("b", prompt=90, output=10, engine_s=2.0))
    counted.note_end(ended(prompt=30, output=20, engine_s=0.0, error=CancelledRequestError("x")))
    assert counted.of("a").engine_s == pytest.approx(50 * 2.0 / 100)


def test_what_runs_is_counted_as_far_as_it_got():
    counted = usage()
    counted.note_end(ended("b", prompt=90, output=10, engine_s=2.0))
    running = [("a", Used(num_requests=1, num_prompt_tokens=40, num_output_tokens=10))]
    counted.watch(lambda: running)
    assert counted.of("a") == Used(
        num_requests=1, num_prompt_tokens=40, num_output_tokens=10, engine_s=1.0
    )
    running.clear()
    counted.note_end(ended("a", prompt=40, output=60, engine_s=3.0))
    assert counted.of("a") == Used(
        num_requests=1, num_prompt_tokens=40, num_output_tokens=60, engine_s=3.0
    )


def test_energy_is_engine_time_by_power_and_unknown_without_it():
    used = Used(engine_s=3.0)
    assert usage(power_watts=7.0).energy_joules(used) == 21.0
    assert usage().energy_joules(used) is None


def test_only_what_changed_is_written():
    counted = usage(kept={"old": UsageTotal(used=Used(num_requests=1), since_s=1.0)})
    assert counted.changed() == {}
    counted.note_end(ended("a"))
    assert list(counted.changed()) == ["a"]
    assert counted.changed() == {}
    counted.note_end(ended("old"))
    assert counted.changed()["old"].used.num_requests == 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.booleans())))
def test_whatever_is_written_at_any_point_is_what_a_new_process_goes_on_from(ends):
    counted, kept = usage(), {}
    for tenant_id, tokens, is_written in ends:
        counted.note_end(ended(tenant_id, prompt=tokens, output=1))
        if is_written:
            kept |= counted.changed()
            counted = usage(kept)
    for tenant_id in "ab":
        tokens = [tokens for each, tokens, _ in ends if each == tenant_id]
        assert counted.of(tenant_id).num_prompt_tokens == sum(tokens)
        assert counted.of(tenant_id).num_requests == len(tokens)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "usage.sqlite"


def test_totals_outlive_the_process(path):
    total = UsageTotal(
        used=Used(
            num_requests=1,
            num_refused=2,
            num_prompt_tokens=3,
            num_output_tokens=4,
            engine_s=0.5,
        ),
        since_s=1000.25,
    )
    ledger = UsageLedger(path)
    ledger.save({"a": total})
    ledger.save({})
    ledger.close()
    ledger = UsageLedger(path)
    assert ledger.load() == {"a": total}
    ledger.close()


def test_a_damaged_file_is_set_aside_F30(path):
    path.write_bytes(b"no database at all" * 100)
    ledger = UsageLedger(path)
    assert ledger.load() == {}
    assert path.with_suffix(".damaged").exists()
    ledger.close()


def test_a_write_that_fails_changes_nothing(path):
    ledger = UsageLedger(path)
    ledger.save({"a": UsageTotal(used=Used(num_requests=1), since_s=0.0)})
    broken = UsageTotal(used=Used(num_requests=2**70), since_s=0.0)
    with pytest.raises((sqlite3.Error, OverflowError)):
        ledger.save({"b": UsageTotal(used=Used(), since_s=0.0), "a": broken})
    assert list(ledger.load()) == ["a"]
    assert ledger.load()["a"].used.num_requests == 1
    ledger.close()
