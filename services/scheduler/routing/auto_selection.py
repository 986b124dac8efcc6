"""The selection `auto`: checked, decided, and turned into the selections it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import structlog
from google.protobuf.duration_pb2 import Duration

from edgelora.adapter_names import AUTO
from edgelora.errors import InvalidRequestError
from edgelora.routing import DeviceState
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.routing_pb2 import RoutedAdapter, Routing
from edgelora.v1.scheduler_service_pb2 import AcquireRequest
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.device import PressureLevel
from services.scheduler.routing.adapter_choice import AdapterChoice, Choice
from services.scheduler.routing.recent_choices import RecentChoices

_SEVERITIES = {
    PressureLevel.NORMAL: 0.0,
    PressureLevel.ELEVATED: 0.5,
    PressureLevel.CRITICAL: 1.0,
}


class AutoSelection:
    """Puts chosen adapters in the place of `auto`."""

    def __init__(
        self,
        choice: AdapterChoice,
        pressure: CurrentPressure,
        digests_of: Callable[[str], Set[str]],
        clock: Callable[[], float],
    ) -> None:
        """`digests_of`: the adapters of a tenant's requests that wait or run; `clock`: seconds."""
        self._choice = choice
        self._pressure = pressure
        self._digests_of = digests_of
        self._clock = clock
        self._recent = RecentChoices()

    async def choose(
        self, request: AcquireRequest, tenant_id: str
    ) -> tuple[Sequence[AdapterSelection], Routing | None]:
        """Returns what to resolve, and what is told of the choice; None where none was asked for.

        Raises InvalidRequestError for an `auto` that is not alone, has a strength or comes without
        a text, and as `AdapterChoice.choose`.
        """
        if not _is_auto(request):
            return request.adapters, None
        device, ceiling = self._pressure.device, self._pressure.restrictions.rank_ceiling
        choice = await self._choice.choose(
            request.claim,
            tenant_id,
            request.routing_text,
            device=DeviceState(
                temperature=_SEVERITIES.get(device.temperature.level),
                memory=_SEVERITIES.get(device.memory.level),
                battery=_SEVERITIES.get(device.battery.level),
            ),
            max_rank=ceiling[0] if ceiling else None,
            on_their_way=lambda: (
                self._digests_of(tenant_id) | self._recent.of(tenant_id, self._clock())
            ),
        )
        digests = [candidate.digest for candidate, _ in choice.adapters]
        self._recent.note(tenant_id, digests, self._clock())
        structlog.contextvars.bind_contextvars(
            route_reason=choice.reason.name.lower(),
            route_candidates=choice.num_candidates,
            route_loss=round(choice.quality_loss, 4),
            route_ms=round(choice.decision_s * 1000, 2),
        )
        selections = [
            AdapterSelection(adapter=candidate.digest, strength=share)
            for candidate, share in choice.adapters
        ]
        return selections, _message(choice)


def _is_auto(request: AcquireRequest) -> bool:
    places = [index for index, each in enumerate(request.adapters) if each.adapter == AUTO]
    if not places:
        return False
    field = f"adapters[{places[0]}]"
    if len(request.adapters) > 1:
        raise InvalidRequestError(
            f"{field}.adapter is {AUTO}, which stands alone", field=f"{field}.adapter"
        )
    if request.adapters[0].HasField("strength"):
        raise InvalidRequestError(
            f"{field}.strength goes with no {AUTO}", field=f"{field}.strength"
        )
    if not request.routing_text.strip():
        raise InvalidRequestError(f"routing_text is needed with {AUTO}", field="routing_text")
    return True


def _message(choice: Choice) -> Routing:
    decision_time = Duration()
    decision_time.FromMicroseconds(round(choice.decision_s * 1e6))
    return Routing(
        adapters=[
            RoutedAdapter(digest=candidate.digest, alias=candidate.alias, share=share)
            for candidate, share in choice.adapters
        ],
        base_share=choice.base_share,
        reason=f"ROUTING_REASON_{choice.reason.name}",
        decision_time=decision_time,
        num_candidates=choice.num_candidates,
    )
