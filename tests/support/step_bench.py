"""The engine's inside on the stand-in back end, one step at a time, with a clock of its own."""

from __future__ import annotations

from pathlib import Path

from services.inference.backends.base import BackendLimits, LoadableAdapter
from services.inference.constraints.matcher import TokenConstraint
from services.inference.engine.adapter_loader import InlineLoader, LoadDone
from services.inference.engine.adapter_slots import AdapterSlots, Eviction
from services.inference.engine.effect_check import EffectCheck
from services.inference.engine.events import Completed, Event, Failed, TextDelta
from services.inference.engine.fetched_adapter import FetchedAdapter, FinishedLoad
from services.inference.engine.generation import Generation
from services.inference.engine.iteration_scheduler import IterationScheduler, StepLimits
from services.inference.engine.kv_blocks import KvBlockPool
from services.inference.engine.outbox import WantedAdapter
from services.inference.engine.prefix_cache import PrefixCache
from services.inference.engine.sequence import AdapterUse, Priority, Sequence, StopConditions
from services.inference.engine.sessions import SessionLimits, Sessions
from services.inference.engine.shares import Shares, base_parameters
from services.inference.engine.step_loop import StepLoop
from services.inference.engine.token_bytes import TokenBytes
from tests.support.fake_clock import FakeClock
from tests.support.stand_in_backend import SLOT_BYTES, VOCAB_SIZE, StandInBackend, stand_in_weights

BLOCK_SIZE = 4
STEP_S = 0.0125
TOKEN_BYTES = TokenBytes([bytes([32 + index]) for index in range(VOCAB_SIZE)])


def fetched(seed: int, *, scale: float = 1.0) -> FetchedAdapter:
    """The stand-in adapter of a number; scale 0 makes one without effect."""
    return FetchedAdapter(stand_in_weights(seed, scale=scale))


class SteppedLoader:
    """Loads at once, or when told to, as a thread beside the steps may."""

    def __init__(self, backend: StandInBackend) -> None:
        self._inline = InlineLoader(backend)
        self._held: list[tuple[int, LoadableAdapter, LoadDone]] = []
        self.is_holding = False

    def load(self, slot: int, adapter: LoadableAdapter, done: LoadDone, *, is_urgent: bool) -> None:
        self._held.append((slot, adapter, done))
        if not self.is_holding:
            self.finish_all()

    def finish_all(self) -> None:
        """Ends the loads under way."""
        held, self._held = self._held, []
        for job in held:
            self._inline.load(*job, is_urgent=True)

    def close(self) -> None:
        self._held.clear()


class StepBench:
    """Adds generations, steps, and keeps what each was told. Adapters are named by numbers."""

    def __init__(
        self,
        *,
        num_blocks: int = 16,
        num_slots: int = 2,
        max_num_seqs: int = 3,
        budget: int = 8,
        lower_prefill_tokens: int = 64,
        tenant_prefill_tokens: int = 64,
        aging_s: float = 15.0,
        eos_token_ids: frozenset[int] = frozenset(),
        prefix_caching: bool = True,
        budget_bytes: int | None = None,
        min_residency_s: float = 0.0,
        sessions: SessionLimits | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.backend = StandInBackend()
        self.blocks = KvBlockPool(num_blocks, BLOCK_SIZE)
        self.slots = AdapterSlots(
            num_slots,
            slot_bytes=SLOT_BYTES,
            budget_bytes=budget_bytes,
            min_residency_s=min_residency_s,
        )
        limits = BackendLimits(
            num_kv_blocks=num_blocks + 1,
            block_size=BLOCK_SIZE,
            max_loras=num_slots,
            max_lora_rank=8,
            max_step_tokens=budget,
        )
        model = self.backend.load_model(Path(), limits)
        self.scheduler = IterationScheduler(
            StepLimits(
                max_num_seqs=max_num_seqs,
                max_num_batched_tokens=budget,
                lower_prefill_tokens=lower_prefill_tokens,
                tenant_prefill_tokens=tenant_prefill_tokens,
                aging_s=aging_s,
            ),
            self.blocks,
            self.slots,
            PrefixCache(self.blocks, model.digest, is_enabled=prefix_caching),
            Sessions(self.blocks, sessions or SessionLimits()),
        )
        self.loader = SteppedLoader(self.backend)
        check = EffectCheck([1, 2, 3], [num_blocks], budget)
        shares = Shares(base_parameters(model), lambda digest: 1000)
        self.loop = StepLoop(self.backend, self.scheduler, self.loader, check, shares, self.clock)
        self.events: dict[int, list[Event]] = {}
        self.sequences: dict[int, Sequence] = {}
        self.wanted: list[WantedAdapter] = []
        self.refused: list[str] = []
        self.finished: list[FinishedLoad] = []
        self.evictions: list[Eviction] = []
        self._eos_token_ids = eos_token_ids

    def add(
        self,
        token_ids: list[int],
        adapters: tuple[int, ...] = (),
        *,
        max_tokens: int = 6,
        priority: Priority = Priority.INTERACTIVE,
        ticket: object = "ticket",
        tenant_id: str | None = "tenant",
        constraint: TokenConstraint | None = None,
        **changes: object,
    ) -> int:
        """Queues a generation and returns its id. `changes` go to the sequence."""
        sequence_id = len(self.sequences)
        sequence = Sequence(
            sequence_id=sequence_id,
            token_ids=list(token_ids),
            adapters=tuple(AdapterUse(str(adapter), 1.0) for adapter in adapters),
            priority=priority,
            tenant_id=tenant_id,
            **{"stop": StopConditions(max_tokens=max_tokens), **changes},  # type: ignore[arg-type]
        )
        self.sequences[sequence_id] = sequence
        self.events[sequence_id] = []
        self.loop.add(
            Generation(
                sequence,
                ticket=ticket,
                token_bytes=TOKEN_BYTES,
                eos_token_ids=self._eos_token_ids,
                arrived_s=self.clock(),
                constraint=constraint,
            )
        )
        self.collect()
        return sequence_id

    def step(self) -> bool:
        """Runs one step."""
        self.clock.advance(STEP_S)
        has_run = self.loop.step()
        self.collect()
        return has_run

    def collect(self) -> None:
        """Keeps what the loop has told."""
        outbox = self.loop.take_outbox()
        for sequence_id, event in outbox.events:
            self.events[sequence_id].append(event)
        self.wanted += outbox.wanted
        self.refused += [digest for digest, _ in outbox.refused]
        self.finished += outbox.loads
        self.evictions += outbox.evictions

    def load_wanted(self) -> None:
        """Answers every wanted adapter with its weights."""
        for wanted in self.wanted:
            self.loop.adapters.load(wanted.digest, fetched(int(wanted.digest)))
        self.wanted.clear()
        self.collect()

    def run(self, max_steps: int = 2000) -> None:
        """Steps and loads until nothing is left to do."""
        for _ in range(max_steps):
            has_run = self.step()
            if not has_run and not self.wanted:
                return
            self.load_wanted()
        raise AssertionError("it never came to rest")

    def text(self, sequence_id: int) -> str:
        """The joined deltas of a generation."""
        return "".join(e.text for e in self.events[sequence_id] if isinstance(e, TextDelta))

    def end(self, sequence_id: int) -> Completed | Failed | None:
        """How a generation ended; asserts that it ended at most once, as its last event."""
        events = self.events[sequence_id]
        ends = [event for event in events if isinstance(event, Completed | Failed)]
        assert len(ends) <= 1
        assert not ends or events[-1] is ends[0]
        return ends[0] if ends else None

    def assert_at_rest(self) -> None:
        """Asserts that nothing is held, but for sessions."""
        status = self.loop.status()
        num_held = status.num_kv_blocks - status.num_free_kv_blocks
        assert num_held * BLOCK_SIZE == status.num_session_tokens
        assert (status.num_adapter_references, status.num_running, status.num_waiting) == (0, 0, 0)


def solo_text(
    token_ids: list[int], adapters: tuple[int, ...], max_tokens: int, **changes: object
) -> str:
    """What a generation answers when it is alone."""
    bench = StepBench(num_slots=4)
    sequence_id = bench.add(token_ids, adapters, max_tokens=max_tokens, **changes)  # type: ignore[arg-type]
    bench.run()
    assert isinstance(bench.end(sequence_id), Completed)
    return bench.text(sequence_id)


def changed_text(sequence: Sequence) -> str:
    """What an ended generation had to answer, with the strengths it had at each token."""
    bench = StepBench(num_blocks=64, num_slots=4)
    sequence_id = bench.add(
        sequence.token_ids[: sequence.num_prompt_tokens],
        tuple(int(digest) for digest in sequence.digests),
        max_tokens=sequence.stop.max_tokens,
        sampling=sequence.sampling,
    )
    bench.sequences[sequence_id].adapters = sequence.adapters
    bench.sequences[sequence_id].changes = sequence.changes
    bench.run()
    return bench.text(sequence_id)
