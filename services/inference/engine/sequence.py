"""A sequence: one prompt and what the model adds to it, with everything the engine knows of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from services.chassis.generation_limits import DEFAULT_MAX_TOKENS
from services.inference.backends.base import SlotWeight
from services.inference.engine.strengths import StrengthChanges, Weights


class Priority(enum.IntEnum):
    """Classes in the order they are served."""

    INTERACTIVE = 1
    BACKGROUND = 2
    BATCH = 3


class SequenceStatus(enum.Enum):
    """Where a sequence is in its life."""

    WAITING = enum.auto()
    """Holds nothing: no seat, no slot, no block. Also after a preemption."""
    LOADING = enum.auto()
    """Holds a seat and its adapter slots; some adapter is still on its way, or no block is free."""
    RUNNING = enum.auto()
    """Holds a seat, its slots and KV blocks."""
    FINISHED = enum.auto()
    """Holds nothing and comes never back."""


class FinishReason(enum.Enum):
    """Why a complete generation ended."""

    STOP = enum.auto()
    LENGTH = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen. Ranges are those of generation.proto."""

    temperature: float = 0.0
    """0 is greedy."""
    top_k: int | None = None
    """None keeps all."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    """None draws one."""

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopConditions:
    """When generation ends."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    stop_strings: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class AdapterUse:
    """One adapter of a sequence: its digest and strength (0 to 2)."""

    digest: str
    weight: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of a token under the model's own distribution."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The likeliest (token id, log probability), best first."""


@dataclass(frozen=True, slots=True)
class SampledToken:
    """One token the model added."""

    token_id: int
    logprob: TokenLogprob | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One running or waiting generation. Owned by the engine thread."""

    sequence_id: int
    """Grows with arrival; orders sequences of one class."""
    token_ids: list[int]
    """Prompt first, then output."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: StopConditions = field(default_factory=StopConditions)
    num_top_logprobs: int | None = None
    """None: no log probabilities are wanted."""
    priority: Priority = Priority.INTERACTIVE
    adapters: tuple[AdapterUse, ...] = ()
    """Distinct digests; empty is the base model."""
    tenant_id: str | None = None
    """Whose it is; None shares no KV blocks."""
    session: str = ""
    """The tenant's name of the conversation whose blocks are kept; empty keeps none."""
    num_prompt_tokens: int = field(init=False)

    forms: tuple[str, ...] = field(default=(), init=False)
    """Serving forms of its adapters, as they were when it last got its slots."""
    status: SequenceStatus = field(default=SequenceStatus.WAITING, init=False)
    num_cached_tokens: int = field(default=0, init=False)
    """Tokens whose keys and values are in the KV cache."""
    block_table: list[int] = field(default_factory=list, init=False)
    block_keys: list[bytes] = field(default_factory=list, init=False)
    """Keys of its full blocks, as far as they were needed; they outlast a preemption."""
    num_published_blocks: int = field(default=0, init=False)
    num_reused_tokens: int = field(default=0, init=False)
    """Cached tokens that it found computed."""
    num_cached_prompt_tokens: int = field(default=0, init=False)
    """Tokens of the prompt that it never had to compute."""
    slots: tuple[int, ...] = field(default=(), init=False)
    """One for each adapter while the sequence holds them, else empty; see `take_slots`."""
    _asked_slot_weights: tuple[SlotWeight, ...] = field(default=(), init=False)
    changes: StrengthChanges = field(default_factory=StrengthChanges, init=False)
    """Of its adapters' strengths, since its first token ran."""
    is_forgotten: bool = field(default=False, init=False)
    """Whether no more of it is offered to later prompts."""
    engine_s: float = field(default=0.0, init=False)
    """Its share of the time of the steps so far."""
    unserved_since_s: float = field(default=0.0, init=False)
    """When a step last had tokens of it; first when it arrived."""
    has_turn: bool = field(default=False, init=False)
    """Whether it goes before everybody for a while, see aging.py."""
    num_computed_tokens: int = field(default=0, init=False)
    """Most tokens whose keys and values it ever had in the KV cache."""
    slots_wanted_since_s: float | None = field(default=None, init=False)
    """When it first could not get its slots; None while it is not blocked on them."""
    overtaken_since_s: float | None = field(default=None, init=False)
    """When others could first go before it because their adapters were in slots; None while it
    holds its slots."""
    has_waited_for_slots: bool = field(default=False, init=False)
    """Whether it ever had to."""
    num_preemptions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.num_prompt_tokens = len(self.token_ids)

    @property
    def digests(self) -> tuple[str, ...]:
        """Digests of its adapters."""
        return tuple(use.digest for use in self.adapters)

    def take_forms(self, forms: tuple[str, ...]) -> None:
        """Notes in which forms its adapters are loaded; other ones make other keys and values."""
        if forms != self.forms:
            self.forms = forms
            self.block_keys.clear()

    @property
    def uses(self) -> tuple[AdapterUse, ...]:
        """Its adapters with the strengths in force now."""
        weights = self.changes.newest(self._initial_weights)
        return tuple(map(AdapterUse, self.digests, weights))

    def set_strength(self, digest: str, weight: float) -> None:
        """Changes the strength of one of its adapters for every token that has not run yet."""
        weights = tuple(weight if use.digest == digest else use.weight for use in self.uses)
        start = max(self.num_cached_tokens, self.num_computed_tokens)
        if start:
            self.changes.add(start, weights, self._initial_weights)
        else:
            # As if it had been asked for so.
            self.changes = StrengthChanges()
            self.adapters = tuple(map(AdapterUse, self.digests, weights))
            self.block_keys.clear()
            self.take_slots(self.slots)

    def take_slots(self, slots: tuple[int, ...]) -> None:
        """Notes where its adapters are; empty for nowhere."""
        self.slots = slots
        self._asked_slot_weights = self._weigh(self._initial_weights)

    @property
    def slot_weights(self) -> tuple[SlotWeight, ...]:
        """What its next token runs with; an adapter of strength 0 takes no part."""
        if not self.changes:
            return self._asked_slot_weights
        return self._weigh(self.changes.at(self.num_cached_tokens, self._initial_weights))

    def _weigh(self, weights: Weights) -> tuple[SlotWeight, ...]:
        return tuple(
            SlotWeight(slot, weight)
            for slot, weight in zip(self.slots, weights, strict=bool(self.slots))
            if weight
        )

    @property
    def num_uniform_tokens(self) -> int:
        """Tokens still to be run that run with the same strengths."""
        change = self.changes.next_start(self.num_cached_tokens)
        num_tokens = self.num_uncached_tokens
        return num_tokens if change is None else min(num_tokens, change - self.num_cached_tokens)

    @property
    def num_shareable_tokens(self) -> int:
        """Tokens whose keys and values depend on nothing but what the request asked for."""
        change = self.changes.first_start
        return len(self.token_ids) if change is None else change

    @property
    def _initial_weights(self) -> Weights:
        return tuple(use.weight for use in self.adapters)

    @property
    def num_output_tokens(self) -> int:
        """Tokens the model has added."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncached_tokens(self) -> int:
        """Tokens still to be run before the next one can be sampled; 1 while decoding."""
        return len(self.token_ids) - self.num_cached_tokens

    @property
    def is_prefilling(self) -> bool:
        """Whether more than the newest token is to be run."""
        return self.num_uncached_tokens > 1 or self.num_output_tokens == 0

    @property
    def precedence(self) -> int:
        """The lower, the better: its class, or less than any class while it has a turn."""
        return 0 if self.has_turn else self.priority

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: better precedence first, then earlier arrival."""
        return (self.precedence, self.sequence_id)
