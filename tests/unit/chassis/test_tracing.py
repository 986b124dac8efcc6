"""Traces: off is nothing at all, on needs the extra, and a collector that is away harms nobody."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from services.chassis import tracing
from services.chassis.channel import call_metadata
from services.chassis.otlp_tracer import OtlpTracer
from services.chassis.settings import ConfigError
from tests.support.free_port import free_port
from tests.support.otlp_receiver import OtlpReceiver

ROOT = Path(__file__).resolve().parents[3]
CALLERS = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def receiver():
    made = OtlpReceiver()
    yield made
    made.close()


@pytest.fixture
def traced(receiver):
    """A process with a tracer; what it sent is there once the tracing is closed."""
    tracing.set_tracer(OtlpTracer("gateway", receiver.endpoint))
    yield receiver
    tracing.close_tracing()


def spans_of(receiver):
    tracing.close_tracing()
    return {span.name: span for span in receiver.spans}


def begin(name="call", callers=None, *, starts=True, callers_trace="parent"):
    return tracing.begin_call(name, callers, starts=starts, callers_trace=callers_trace)


async def test_off_no_span_begins_and_no_metadata_goes_out():
    assert not tracing.is_traced()
    span = begin(callers=CALLERS)
    assert span is tracing.NO_SPAN
    with tracing.inside(span.child("x")) as inner:
        inner.set({"a": 1})
        inner.phase("p", 0.0, 1.0)
        inner.end("REASON")
    assert call_metadata() == ()
    tracing.remember("r")
    assert tracing.remembered("r") is tracing.NO_SPAN


def test_off_the_sdk_is_not_loaded_and_a_call_costs_next_to_nothing():
    code = (
        "import sys, services.gateway.__main__, services.inference.worker; "
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


async def test_spans_are_nested_and_their_traceparent_goes_with_calls(traced):
    call = begin()
    with tracing.inside(tracing.current_span().child("inner")) as inner:
        ((key, value),) = call_metadata()
        assert (key, value) == ("traceparent", inner.traceparent)
        inner.phase("part", 0.1, 0.3, {"n": 3, "names": ["a", "b"]})
        inner.end()
    assert tracing.current_span() is call
    call.end("INTERNAL")
    spans = spans_of(traced)
    assert spans["inner"].parent_id == spans["call"].span_id
    assert spans["part"].parent_id == spans["inner"].span_id
    part = spans["part"]
    assert part.attributes == {"n": 3, "names": ["a", "b"]}
    assert part.end_ns - part.begin_ns == 200_000_000
    assert spans["call"].is_error
    assert spans["call"].attributes["error.type"] == "INTERNAL"


@pytest.mark.parametrize(
    ("policy", "parent", "links"),
    [
        ("ignore", "", []),
        ("link", "", [("a" * 32, "b" * 16)]),
        ("parent", "b" * 16, []),
    ],
)
async def test_a_callers_trace_is_taken_as_the_policy_says(traced, policy, parent, links):
    begin(callers=CALLERS, callers_trace=policy).end()
    span = spans_of(traced)["call"]
    assert (span.parent_id, span.links) == (parent, links)
    assert (span.trace_id == "a" * 32) is (policy == "parent")


@pytest.mark.parametrize(
    "strange",
    [
        "",
        "x" * 10_000,
        "00-" + "0" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "a" * 32 + "-" + "b" * 16 + "-01",
        CALLERS + "-more",
        CALLERS.upper(),
    ],
)
@pytest.mark.parametrize("policy", ["link", "parent"])
async def test_a_malformed_traceparent_begins_a_trace_of_our_own(traced, strange, policy):
    begin(callers=strange, callers_trace=policy).end()
    span = spans_of(traced)["call"]
    assert (span.parent_id, span.links) == ("", [])


async def test_a_service_traces_only_what_a_traced_caller_asks_for(traced):
    assert begin("alone", starts=False) is tracing.NO_SPAN
    begin("asked", CALLERS, starts=False).end()
    assert set(spans_of(traced)) == {"asked"}


async def test_a_task_of_its_own_has_its_own_span(traced):
    async def call(name):
        span = begin(name)
        await asyncio.sleep(0)
        assert tracing.current_span() is span
        span.end()

    await asyncio.gather(*(call(f"c{number}") for number in range(20)))
    assert len({span.trace_id for span in spans_of(traced).values()}) == 20


async def test_what_others_do_for_a_call_finds_its_span_until_it_is_forgotten(traced):
    span = begin()
    tracing.remember("ticket")
    with tracing.inside(tracing.NO_SPAN), tracing.inside(tracing.remembered("ticket")):
        assert call_metadata() == (("traceparent", span.traceparent),)
    tracing.forget("ticket")
    tracing.forget("ticket")
    assert tracing.remembered("ticket") is tracing.NO_SPAN
    span.end()


async def test_a_wall_clock_that_is_set_changes_no_length(traced, monkeypatch):
    span = begin()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    span.end()
    sent = spans_of(traced)["call"]
    assert 0 <= sent.end_ns - sent.begin_ns < 60_000_000_000


async def test_a_collector_that_is_away_keeps_nobody_from_stopping():
    tracing.set_tracer(OtlpTracer("gateway", f"http://127.0.0.1:{free_port()}"))
    for _ in range(100):
        begin().end()
    tracing.close_tracing()
    assert not tracing.is_traced()


def test_an_endpoint_that_is_none_is_refused_and_none_is_off():
    with pytest.raises(ConfigError, match="must be an HTTP address"):
        tracing.configure_tracing("gateway", "127.0.0.1:4318")
    tracing.configure_tracing("gateway", "")
    assert not tracing.is_traced()


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "services.chassis.otlp_tracer", None)
    with pytest.raises(ConfigError, match=r"needs the extra otel: run .*-m pip install"):
        tracing.configure_tracing("gateway", "http://127.0.0.1:4318")
