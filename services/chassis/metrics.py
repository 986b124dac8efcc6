"""What one process counts and shows to a Prometheus. Loaded only where it is asked for: the client
library takes 4 MB of every process.

Events are counted where they happen (`CallMetrics`, and each service's own module). What a service
merely holds is read when somebody scrapes, on the event loop it belongs to, so that no object needs
a lock. A value that is unknown is absent, never 0. Labels are ours alone: names of rpcs, classes,
rules, digests; no tenant, and nothing a user typed.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from services.chassis.interceptor import EndedCall
from services.chassis.logs import get_logger
from services.chassis.metrics_listener import MetricsListener

Reader = Callable[[], Iterable[Metric]]
"""Reads what a service holds. Called on the event loop; must be quick."""

_ANSWER_S = 1.0
_CALL_BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0)


class Metrics:
    """The registry of one process, with what every process shows. Made on its event loop."""

    def __init__(self, service: str, address: str) -> None:
        """`address`: `host:port` where it is read."""
        # Series that say when a counter was made are of no use here, and double their number.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._address = address
        self.calls = CallMetrics(self.registry)
        self._readers: list[Reader] = []
        self._loop_reading = LoopReading(asyncio.get_running_loop(), self._read)
        Gauge(
            "edgelora_build_info",
            "Always 1; what runs.",
            ["service", "version", "python"],
            registry=self.registry,
        ).labels(service, importlib.metadata.version("edgelora"), platform.python_version()).set(1)
        Gauge(
            "edgelora_process_threads", "Python threads of the process.", registry=self.registry
        ).set_function(threading.active_count)
        ProcessCollector(registry=self.registry)
        self.registry.register(self._loop_reading)

    def read_on_loop(self, reader: Reader) -> None:
        """Adds what a service shows when it is asked."""
        self._readers.append(reader)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format 0.0.4. Not to be called on the event loop."""
        return prometheus_client.generate_latest(self.registry)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[MetricsListener]:
        """Answers scrapes from threads of its own. Raises OSError."""
        listener = MetricsListener(self._address, self.text)
        get_logger().info("metrics_started", address=self._address)
        try:
            yield listener
        finally:
            self._loop_reading.close()
            await asyncio.to_thread(listener.close)

    def _read(self) -> Iterator[Metric]:
        for reader in self._readers:
            yield from reader()


class CallMetrics:
    """How the rpcs of a process ended and how long they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._durations = Histogram(
            "edgelora_rpc_duration_seconds",
            "Time of an rpc until its end, by method and status code.",
            ["rpc", "code"],
            buckets=_CALL_BUCKETS_S,
            registry=registry,
        )
        self._errors = Counter(
            "edgelora_rpc_errors_total",
            "Rpcs that ended in an error, by method and reason (docs/errors.md).",
            ["rpc", "reason"],
            registry=registry,
        )

    def note_end(self, call: EndedCall) -> None:
        """Counts one rpc; only methods that exist get here."""
        rpc = call.method.rpartition(".")[2]
        self._durations.labels(rpc, call.code).observe(call.duration_s)
        if call.reason is not None:
            self._errors.labels(rpc, call.reason.lower()).inc()


class LoopReading(Collector):
    """Reads on the event loop for a scrape that runs elsewhere.

    A loop that does not answer in time leaves everything out that it would have told, and with it
    `edgelora_event_loop_lag_seconds`: its absence is the sign of a loop that is stuck.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Reader) -> None:
        self._loop = loop
        self._read = read
        self._is_closed = False

    def close(self) -> None:
        """Asks no more: from now on the loop may be waiting for the end of a scrape."""
        self._is_closed = True

    def collect(self) -> Iterable[Metric]:
        """Yields what the loop tells. Called on the thread of a scrape."""
        if self._is_closed:
            return
        asked_s = time.monotonic()
        answer: Future[list[Metric]] = Future()

        def tell() -> None:
            lag_s = time.monotonic() - asked_s
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result([_loop_lag(lag_s), *self._read()])
            except Exception as error:  # noqa: BLE001 - raised again on the thread that asked
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(tell)
            yield from answer.result(_ANSWER_S)
        except TimeoutError:
            answer.cancel()
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - the rest of the scrape is worth having
            get_logger().error("metrics_not_read", error_type=type(error).__name__)


def _loop_lag(seconds: float) -> Metric:
    return gauge(
        "edgelora_event_loop_lag_seconds",
        "How late the event loop got to what a scrape asked of it; absent: it is stuck.",
        seconds,
    )


def gauge(name: str, meaning: str, value: float | None) -> Metric:
    """A gauge without labels; without a value it has no sample."""
    family = GaugeMetricFamily(name, meaning)
    if value is not None:
        family.add_metric([], value)
    return family


def gauges(name: str, meaning: str, label: str, values: Mapping[str, float | None]) -> Metric:
    """A gauge with one label; what is None is left out."""
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for text, value in values.items():
        if value is not None:
            family.add_metric([text], value)
    return family


def counter(name: str, meaning: str, value: float) -> Metric:
    """A counter without labels, counted elsewhere; `name` ends in `_total`."""
    family = CounterMetricFamily(name, meaning)
    family.add_metric([], value)
    return family


def counters(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    """A counter with one label, counted elsewhere; `name` ends in `_total`."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for text, value in values.items():
        family.add_metric([text], value)
    return family
