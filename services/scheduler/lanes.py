"""A lane for each task: its workers, its queue and who hands out its places.

Generations and encodings share the rules of pressure and nothing else: neither waits for the other.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass

from edgelora.errors import EdgeLoraError, InvalidRequestError, NotFoundError
from services.chassis.unserved import NO_DECODER, NO_ENCODER
from services.scheduler.dispatcher import Dispatcher
from services.scheduler.places import PlaceLimits
from services.scheduler.schedule import Schedule


class Task(enum.IntEnum):
    """What a worker does. The numbers are those of the Task proto."""

    GENERATE = 1
    ENCODE = 2


_UNSERVED = {Task.GENERATE: NO_DECODER, Task.ENCODE: NO_ENCODER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The workers of one task."""

    task: Task
    schedule: Schedule
    dispatcher: Dispatcher


class Lanes:
    """The lanes of this node; at least one."""

    def __init__(self, lanes: Mapping[Task, Lane]) -> None:
        self._lanes = dict(lanes)

    def all(self) -> list[Lane]:
        """Every lane."""
        return list(self._lanes.values())

    def of_task(self, number: int) -> Lane:
        """The lane of a Task of the proto; unspecified means generation.

        Raises InvalidRequestError for a number that is no task, NotFoundError for one that this
        node has no workers for.
        """
        if number not in (0, *Task):
            raise InvalidRequestError("task must be generate or encode", field="task")
        task = Task(number or Task.GENERATE)
        lane = self._lanes.get(task)
        if lane is None:
            raise NotFoundError(_UNSERVED[task], metadata={"task": task.name.lower()})
        return lane

    def of_ticket(self, ticket_id: str) -> Lane:
        """The lane that leased the ticket's place; any of them when none did."""
        lanes = self.all()
        return next((lane for lane in lanes if ticket_id in lane.schedule.leases), lanes[0])

    def adapters_in_use(self, tenant_id: str) -> Set[str]:
        """Digests of the tenant's requests that wait or run: each is in a slot, or on its way."""
        schedules = [lane.schedule for lane in self.all()]
        return {
            digest
            for schedule in schedules
            for request in (*schedule.leases.running(), *schedule.queue.waiting_of(tenant_id))
            if request.tenant_id == tenant_id
            for digest in request.digests
        }

    def cancel(self, tenant_id: str, request_id: str) -> bool:
        """Takes the tenant's requests of that name out of the queues; False when none waited."""
        return any([lane.dispatcher.cancel(tenant_id, request_id) for lane in self.all()])

    def limit_places(self, limits: PlaceLimits) -> None:
        """Changes how many places of each worker may be taken from now on."""
        for lane in self.all():
            lane.dispatcher.limit_places(limits)

    def refuse_all(self, error: EdgeLoraError) -> None:
        """Ends every waiting request with the error; those that run go on."""
        for lane in self.all():
            lane.dispatcher.refuse_all(error)
