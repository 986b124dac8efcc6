"""Takes requests down the ladder: asks the store under the ceiling, judges again at the grant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    InvalidRequestError,
    ResourcePressureError,
)
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import Degradation
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.scheduler_service_pb2 import AcquireRequest
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.ladder import Serving, descend, is_off
from services.scheduler.pressure.messages import (
    class_refusal,
    degradation_message,
    log_entry,
    step_refusal,
)
from services.scheduler.pressure.restrictions import Restrictions
from services.scheduler.request import Priority
from services.scheduler.store import AdapterStore, Resolution

_FIRST_SELECTION = "adapters[0].adapter"
_FALLBACK = "degradation.fallback_adapter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request as it is served, and what the client is told of it."""

    serving: Serving
    degradations: Sequence[Degradation] = ()
    num_resident: Mapping[str, int] = field(default_factory=dict)
    """Worker name -> how many of the adapters that worker holds."""


class PressureAdmission:
    """Decides how a request is served while the device is under pressure."""

    def __init__(
        self,
        pressure: CurrentPressure,
        store: AdapterStore,
        clock: Callable[[], float],
        *,
        retry_after_s: float,
    ) -> None:
        self._pressure = pressure
        self._store = store
        self._clock = clock
        self._retry_after_s = retry_after_s

    def require_class(self, priority: Priority) -> None:
        """Raises ResourcePressureError when no new request of the class is taken."""
        restriction = self._pressure.restrictions.refusal_of(priority)
        if restriction is not None:
            raise _logged(
                class_refusal(restriction, retry_after_s=self._retry_after_s, now_s=self._clock())
            )

    async def admit(
        self, request: AcquireRequest, selections: Sequence[AdapterSelection]
    ) -> Admitted:
        """Resolves the selections and takes the steps that the device's state asks for.

        Raises ResourcePressureError instead of the first step when the request accepts none, and
        what the store raises.
        """
        restrictions = self._restrictions(request)
        resolution = await self._resolve(request, selections, restrictions)
        fallback = await self._resolve_fallback(request, resolution, restrictions)
        serving = descend(
            resolution.adapters,
            fallback.adapters[0] if fallback.adapters else None,
            request.max_output_tokens,
            restrictions,
        )
        now_s = self._clock()
        if serving.steps and request.degradation.is_refused:
            raise _logged(
                step_refusal(serving.steps[0], retry_after_s=self._retry_after_s, now_s=now_s)
            )
        others = any(not is_off(adapter, restrictions) for adapter in resolution.adapters)
        degradations = [
            degradation_message(step, are_others_served=others, now_s=now_s)
            for step in serving.steps
        ]
        structlog.contextvars.bind_contextvars(
            degradations=[log_entry(degradation) for degradation in degradations]
        )
        return Admitted(
            serving=serving,
            degradations=degradations,
            num_resident=(resolution if others else fallback).num_resident,
        )

    async def admit_again(
        self,
        request: AcquireRequest,
        selections: Sequence[AdapterSelection],
        priority: Priority,
        admitted: Admitted,
    ) -> Admitted:
        """Judges a request that has waited: what it was promised, unless the device got worse.

        Raises as `require_class` and `admit`.
        """
        self.require_class(priority)
        if admitted.serving.is_allowed(self._restrictions(request)):
            return admitted
        return await self.admit(request, selections)

    def _restrictions(self, request: AcquireRequest) -> Restrictions:
        """What the ladder obeys. An encoding is served as asked, or its class is not taken: with
        another adapter, or none, it would answer something else."""
        return Restrictions() if request.task == Task.TASK_ENCODE else self._pressure.restrictions

    async def _resolve_fallback(
        self, request: AcquireRequest, resolution: Resolution, restrictions: Restrictions
    ) -> Resolution:
        """Resolves the fallback, for a request that needs one."""
        name = request.degradation.fallback_adapter
        is_needed = any(is_off(adapter, restrictions) for adapter in resolution.adapters)
        if not name or not is_needed or request.degradation.is_refused:
            return Resolution()
        try:
            return await self._resolve(request, [AdapterSelection(adapter=name)], restrictions)
        except (AdapterNotFoundError, AdapterIncompatibleError, InvalidRequestError) as error:
            # The store knows it as the only selection it was asked for.
            what = error.message.replace(_FIRST_SELECTION, _FALLBACK)
            raise type(error)(what, field=_FALLBACK, metadata=error.metadata) from None

    async def _resolve(
        self,
        request: AcquireRequest,
        selections: Sequence[AdapterSelection],
        restrictions: Restrictions,
    ) -> Resolution:
        ceiling = restrictions.rank_ceiling
        return await self._store.resolve(
            request.claim,
            selections,
            request.user,
            task=request.task,
            max_rank=ceiling[0] if ceiling else 0,
        )


def _logged(error: ResourcePressureError) -> ResourcePressureError:
    structlog.contextvars.bind_contextvars(refusal=error.metadata)
    return error
