"""The generations an engine has, and the outbox that tells of them."""

from __future__ import annotations

from collections.abc import Callable

from edgelora.errors import EdgeLoraError
from services.inference.engine.events import Event, Failed
from services.inference.engine.generation import Generation
from services.inference.engine.iteration_scheduler import IterationScheduler
from services.inference.engine.outbox import Outbox
from services.inference.engine.sequence import Sequence, SequenceStatus


class Generations:
    """Keeps every generation from its arrival to its end."""

    def __init__(self, scheduler: IterationScheduler, clock: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._by_id: dict[int, Generation] = {}
        self.outbox = Outbox()

    def take_outbox(self) -> Outbox:
        """Returns what was collected since the last call."""
        outbox, self.outbox = self.outbox, Outbox()
        return outbox

    def add(self, generation: Generation) -> None:
        """Queues a new generation."""
        self._by_id[generation.sequence.sequence_id] = generation
        self._scheduler.add(generation.sequence, self._clock())

    def of(self, sequence: Sequence) -> Generation:
        """The generation of a sequence that has not ended."""
        return self._by_id[sequence.sequence_id]

    def using(self, digest: str) -> list[Generation]:
        """Those that name an adapter, in order of arrival."""
        return [each for each in self._by_id.values() if digest in each.sequence.digests]

    def find(self, sequence_id: int) -> Generation | None:
        """One that has not ended, or None."""
        return self._by_id.get(sequence_id)

    def of_session(self, tenant_id: str, session: str) -> list[Generation]:
        """A tenant's in one of its sessions, or all of the tenant's where it is empty."""
        return [
            each
            for each in self._by_id.values()
            if each.sequence.tenant_id == tenant_id and session in ("", each.sequence.session)
        ]

    def is_any_slot_wanted(self) -> bool:
        """Whether a waiting one has an adapter without a slot."""
        return self._scheduler.is_any_slot_wanted()

    def is_any_running(self) -> bool:
        """Whether the next step has something to run, or may have."""
        return any(each.status is SequenceStatus.RUNNING for each in self._scheduler.seated)

    def tell(self, generation: Generation, event: Event) -> None:
        """Lets its reader have an event."""
        self.outbox.events.append((generation.sequence.sequence_id, event))

    def remove(self, sequence_id: int) -> None:
        """Frees all a generation holds. Unknown and ended ones are ignored."""
        generation = self._by_id.pop(sequence_id, None)
        if generation is not None:
            self._scheduler.remove(generation.sequence, self._clock())

    def end(self, generation: Generation, event: Event) -> None:
        """Lets its reader have the last event, and frees all it holds."""
        self.tell(generation, event)
        self.remove(generation.sequence.sequence_id)

    def fail(self, generation: Generation, error: EdgeLoraError) -> None:
        """Cuts a generation."""
        work = generation.take_work(is_last=True)
        if work is not None:
            self.tell(generation, work)
        self.end(generation, Failed(error))

    def fail_all(self, error: EdgeLoraError) -> None:
        """Cuts every generation."""
        for generation in list(self._by_id.values()):
            self.fail(generation, error)
