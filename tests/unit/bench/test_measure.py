"""Latency statistics against values worked out by hand."""

import pytest

from bench.measure import (
    RequestRecord,
    attainment,
    percentile,
    scaled_slo_s,
    summarise,
)


def record(scheduled_s=0.0, *, first=1.0, finished=2.0, tokens=11, sent=None, error=None):
    return RequestRecord(
        scheduled_s=scheduled_s,
        sent_s=scheduled_s if sent is None else sent,
        first_token_s=None if first is None else scheduled_s + first,
        finished_s=None if finished is None else scheduled_s + finished,
        num_input_tokens=5,
        num_output_tokens=tokens,
        error=error,
    )


def test_ttft_counts_from_the_scheduled_arrival_not_from_sending():
    late = record(10.0, sent=13.0, first=4.0)
    assert late.ttft_s == 4.0


def test_tpot_leaves_the_first_token_out():
    assert record(first=1.0, finished=2.0, tokens=11).tpot_s == pytest.approx(0.1)
    assert record(tokens=1).tpot_s is None
    assert record(finished=None).tpot_s is None


def test_percentiles_interpolate_between_ranks():
    values = [40.0, 10.0, 20.0, 30.0]
    assert percentile(values, 0) == 10.0
    assert percentile(values, 50) == 25.0
    assert percentile(values, 90) == pytest.approx(37.0)
    assert percentile(values, 100) == 40.0
    assert percentile([], 50) is None


def test_attainment_is_strict_and_counts_what_did_not_finish_as_missed():
    records = [
        record(first=5.999),
        record(first=6.0),
        record(first=0.1, finished=None, error="UNAVAILABLE"),
        record(first=None, finished=None, error="RESOURCE_EXHAUSTED"),
    ]
    assert attainment(records, 6.0) == 0.25
    assert attainment([], 6.0) is None


def test_the_scaled_slo_is_the_published_one_at_the_published_rate():
    assert scaled_slo_s(0.5) == 6.0
    assert scaled_slo_s(6.0) == 0.5


def test_a_summary_of_two_finished_and_one_failed_request():
    records = [
        record(0.0, first=0.1, finished=1.1, tokens=11),
        record(1.0, first=0.3, finished=3.0, tokens=10),
        record(2.0, first=None, finished=None, tokens=0, error="UNAVAILABLE"),
    ]
    summary = summarise(records, {"6s": 6.0, "scaled": 0.2})
    assert summary["requests"] == 3
    assert summary["finished"] == 2
    assert summary["errors"] == {"UNAVAILABLE": 1}
    assert summary["elapsed_s"] == 4.0
    assert summary["requests_per_s"] == 0.5
    assert summary["output_tokens_per_s"] == 5.25
    assert summary["ttft_p50_ms"] == pytest.approx(200)
    assert summary["tpot_p99_ms"] == pytest.approx(298, abs=0.5)
    assert summary["attainment_6s"] == pytest.approx(2 / 3, abs=1e-4)
    assert summary["attainment_scaled"] == pytest.approx(1 / 3, abs=1e-4)


def test_a_run_without_a_finished_request_has_no_throughput():
    summary = summarise([record(first=None, finished=None, error="UNAVAILABLE")], {"6s": 6.0})
    assert summary["output_tokens_per_s"] is None
    assert summary["ttft_p50_ms"] is None
    assert summary["attainment_6s"] == 0.0


def test_a_late_client_is_visible():
    summary = summarise([record(sent=0.5)], {})
    assert summary["send_lag_p99_ms"] == 500.0
