"""Looks at the node once a second while somebody watches, and now and then while nobody does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgelora.v1.inference_service_pb2 import GetEngineStatusResponse
from services.chassis.logs import code_places, get_logger
from services.gateway.dashboard.documents import history_point, library_document, node_document
from services.gateway.dashboard.encoder_window import EncoderWindow
from services.gateway.dashboard.engine_window import EngineWindow
from services.gateway.dashboard.history import History
from services.gateway.dashboard.json_text import json_text
from services.gateway.dashboard.latency_windows import LatencyWindows
from services.gateway.dashboard.node_look import EncoderLook, NodeLook
from services.gateway.dashboard.pressure_log import PressureLog
from services.gateway.dashboard.refusal_log import RefusalLog
from services.gateway.encoding.ended import EndedEncoding
from services.gateway.ended_generation import EndedGeneration
from services.gateway.node_readings import NodeReadings
from services.gateway.readiness import Readiness

_WATCHED_S = 1.0
_UNWATCHED_S = 5.0
_LIBRARY_S = 5.0
"""The library is looked at so often, and only while somebody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What all streams send of one look, as JSON texts."""

    node: str
    library: str


class Sampler:
    """Gathers, derives and remembers what the dashboard shows."""

    def __init__(
        self,
        node: NodeReadings,
        readiness: Readiness,
        *,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._node = node
        self._readiness = readiness
        self._clock = clock
        self._unix_clock = unix_clock
        self._engine = EngineWindow()
        self._encoder = EncoderWindow()
        self._latencies = LatencyWindows()
        self._refusals = RefusalLog()
        self._pressure = PressureLog()
        self._history = History()
        self._library = json_text(library_document(None))
        self._library_at_s: float | None = None
        self._num_watchers = 0
        self._watcher_came = asyncio.Event()
        self._sampled = asyncio.Condition()
        self._sample: Sample | None = None
        self._is_over = False

    def observe(self, ended: EndedGeneration) -> None:
        """The end of a generation; see `EndObserver`."""
        self._latencies.add(self._clock(), ended)
        self._refusals.add(self._unix_clock(), ended)

    def observe_encoding(self, ended: EndedEncoding) -> None:
        """The end of an encoding; see its `EndObserver`."""
        self._refusals.add(self._unix_clock(), ended)

    def history(self) -> str:
        """All points, as JSON."""
        return json_text(self._history.points())

    async def run(self) -> None:
        """Looks until it is cancelled; then every reader gets its end."""
        try:
            while True:
                started_s = self._clock()
                await self._try_to_look(started_s)
                await self._pause(started_s)
        finally:
            self._is_over = True
            async with self._sampled:
                self._sampled.notify_all()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Somebody watches: the node is looked at at once, and then every second."""
        self._num_watchers += 1
        self._watcher_came.set()
        try:
            yield
        finally:
            self._num_watchers -= 1

    async def next_sample(self) -> Sample | None:
        """Waits for the next look; None when there will be none. A slow reader misses some."""
        async with self._sampled:
            if not self._is_over:
                await self._sampled.wait()
            return None if self._is_over else self._sample

    async def _try_to_look(self, at_s: float) -> None:
        try:
            await self._look(at_s)
        except Exception as error:  # noqa: BLE001 - what is shown never ends what serves
            get_logger().error(
                "dashboard_look_failed", error_type=type(error).__name__, frames=code_places(error)
            )

    async def _look(self, at_s: float) -> None:
        monitored, queues, tiers, engine, encoder, _ = await asyncio.gather(
            self._node.monitored(),
            self._node.queues(),
            self._node.tiers(),
            self._read_engine(),
            self._read_encoder(),
            self._refresh_library(at_s),
        )
        unix_s = self._unix_clock()
        self._pressure.add(unix_s, monitored.pressure if monitored else None)
        look = NodeLook(
            at_unix_s=unix_s,
            model=self._readiness.model,
            services=dict(self._readiness.services),
            engine=engine,
            use=self._engine.use(),
            queues=queues,
            tiers=tiers,
            monitored=monitored,
            encoder=encoder,
            latencies=self._latencies.by_class(at_s),
            refusals=self._refusals.newest_first(),
            pressure_changes=self._pressure.newest_first(),
        )
        point = history_point(look)
        self._history.add(at_s, point)
        if self._num_watchers:
            self._sample = Sample(
                node=json_text({**node_document(look), "point": point}), library=self._library
            )
            async with self._sampled:
                self._sampled.notify_all()

    async def _read_engine(self) -> GetEngineStatusResponse | None:
        engine = await self._node.engine()
        # Its own time: on a busy node the answers come at different moments.
        self._engine.add(self._clock(), engine)
        return engine

    async def _read_encoder(self) -> EncoderLook | None:
        model, status = self._readiness.encoder, await self._node.encoder()
        self._encoder.add(self._clock(), status)
        if model is None:
            return None
        return EncoderLook(name=model.name, texts_per_s=self._encoder.texts_per_s(), status=status)

    async def _refresh_library(self, at_s: float) -> None:
        is_old = self._library_at_s is None or at_s - self._library_at_s >= _LIBRARY_S
        if self._num_watchers and is_old:
            self._library_at_s = at_s
            self._library = json_text(library_document(await self._node.library()))

    async def _pause(self, started_s: float) -> None:
        self._watcher_came.clear()
        interval_s = _WATCHED_S if self._num_watchers else _UNWATCHED_S
        try:
            async with asyncio.timeout(max(0.0, started_s + interval_s - self._clock())):
                await self._watcher_came.wait()
        except TimeoutError:
            return
