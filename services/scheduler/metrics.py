"""What the scheduler counts: who waited and for how long, who was refused and by which rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from edgelora.v1.degradation_pb2 import DegradationStep
from edgelora.v1.routing_pb2 import RoutingReason
from services.chassis.metrics import Metrics, counter, gauges
from services.scheduler.acquisition import Acquisition
from services.scheduler.lanes import Lanes
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.device import Dimension, PressureLevel
from services.scheduler.request import Priority
from services.scheduler.schedule import Schedule

_WAIT_BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
_TASK_AND_CLASS = ["task", "priority"]
_DECISION_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1)


class SchedulerMetrics(Metrics):
    """The metrics of one scheduler."""

    def __init__(self, address: str) -> None:
        super().__init__("scheduler", address)
        registry = self.registry
        self._waits = Histogram(
            "edgelora_queue_wait_seconds",
            "Time in the queue of requests that got a place.",
            _TASK_AND_CLASS,
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._ends = Counter(
            "edgelora_acquisitions_total",
            "Requests for a place by task, class and end: granted, left, or an error's reason.",
            [*_TASK_AND_CLASS, "end"],
            registry=registry,
        )
        self._refusals = Counter(
            "edgelora_pressure_refusals_total",
            "Requests refused because of the device's state, by rule and step.",
            ["rule", "step"],
            registry=registry,
        )
        self._degradations = Counter(
            "edgelora_degradations_total",
            "Steps by which requests are served otherwise than asked, by rule.",
            ["step", "rule"],
            registry=registry,
        )
        self._routings = Counter(
            "edgelora_routing_decisions_total",
            "Decisions of the router by reason.",
            ["reason"],
            registry=registry,
        )
        self._routing_times = Histogram(
            "edgelora_routing_decision_seconds",
            "Time a decision of the router took, the store's answer included.",
            buckets=_DECISION_BUCKETS_S,
            registry=registry,
        )

    def watch(self, lanes: Lanes, pressure: CurrentPressure) -> None:
        """Says where to read what the scheduler holds."""

        def read() -> Iterable[Metric]:
            yield from _places(lanes)
            yield from _pressure(pressure)

        self.read_on_loop(read)

    def note_end(self, ended: Acquisition) -> None:
        """Counts one request for a place; an AcquisitionObserver."""
        task, priority = ended.task.name.lower(), ended.priority.name.lower()
        error = ended.error
        if error is not None:
            end = error.reason.lower()
        else:
            end = "left" if ended.wait_s is None else "granted"
        self._ends.labels(task, priority, end).inc()
        if error is not None and "rule" in error.metadata:
            self._refusals.labels(error.metadata["rule"], error.metadata.get("step", "")).inc()
        if ended.wait_s is not None:
            self._waits.labels(task, priority).observe(ended.wait_s)
        for degradation in ended.degradations:
            step = DegradationStep.Name(degradation.step).removeprefix("DEGRADATION_STEP_")
            self._degradations.labels(step.lower(), degradation.rule).inc()
        if ended.routing is not None:
            reason = RoutingReason.Name(ended.routing.reason).removeprefix("ROUTING_REASON_")
            self._routings.labels(reason.lower()).inc()
            self._routing_times.observe(ended.routing.decision_time.ToMicroseconds() / 1e6)


def _places(lanes: Lanes) -> Iterable[Metric]:
    yield _by_task_and_class(
        "edgelora_queue_waiting",
        "Requests that wait for a place, by task and class.",
        lanes,
        lambda schedule, priority: schedule.queue.num_waiting(priority),
    )
    yield _by_task_and_class(
        "edgelora_queue_running",
        "Requests that hold a place, by task and class.",
        lanes,
        lambda schedule, priority: schedule.leases.num_running(priority),
    )
    schedules = [lane.schedule for lane in lanes.all()]
    workers = [worker for schedule in schedules for worker in schedule.roster.all()]
    yield gauges(
        "edgelora_worker_leases",
        "Places of a worker that are held.",
        "worker",
        {
            worker.name: schedule.leases.num_running_on(worker.name)
            for schedule in schedules
            for worker in schedule.roster.all()
        },
    )
    yield gauges(
        "edgelora_worker_places",
        "Places of a worker, for one class and better.",
        "worker",
        {worker.name: worker.max_running for worker in workers},
    )
    yield gauges(
        "edgelora_worker_ready",
        "Whether a worker may be given work: 1 or 0.",
        "worker",
        {worker.name: float(worker.is_ready) for worker in workers},
    )
    yield counter(
        "edgelora_leases_expired_total",
        "Places taken back from a gateway that did not renew them.",
        sum(schedule.num_expired for schedule in schedules),
    )


def _by_task_and_class(
    name: str, meaning: str, lanes: Lanes, count: Callable[[Schedule, Priority], int]
) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=_TASK_AND_CLASS)
    for lane in lanes.all():
        for priority in Priority:
            labels = [lane.task.name.lower(), priority.name.lower()]
            family.add_metric(labels, count(lane.schedule, priority))
    return family


def _pressure(pressure: CurrentPressure) -> Iterable[Metric]:
    yield pressure_levels(
        "edgelora_scheduler_pressure_level",
        {each.value: pressure.device[each].level for each in Dimension},
    )
    active = pressure.restrictions.active
    yield gauges(
        "edgelora_restriction_active",
        "1 for each rule that takes something away now; the others are absent.",
        "rule",
        {restriction.cause.rule: 1.0 for restriction in active},
    )
    shares = pressure.restrictions.run_shares
    yield gauges(
        "edgelora_run_share_ratio",
        "What is left of each worker, 1 for all: sequences, prompt tokens, threads.",
        "of",
        {"sequences": shares.seqs, "prefill": shares.prefill, "threads": shares.threads},
    )


def pressure_levels(name: str, levels: dict[str, PressureLevel]) -> Metric:
    """1 for the level of each dimension, 0 for its other levels."""
    family = GaugeMetricFamily(
        name,
        "1 for the level each dimension of the device is at, as the scheduler knows it; else 0.",
        labels=["dimension", "level"],
    )
    for dimension, current in levels.items():
        for level in PressureLevel:
            family.add_metric([dimension, level.name.lower()], float(level is current))
    return family
