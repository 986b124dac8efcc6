"""The encoder's engine between two steps and in one: adapters, ends, failures, cancelling."""

import random
from pathlib import Path

import numpy as np
import pytest

from edgelora.adapter_format import ClassifierHead
from edgelora.errors import (
    AdapterNotFoundError,
    AdapterRejectedError,
    InternalError,
    InvalidRequestError,
    ServiceUnavailableError,
    TicketExpiredError,
)
from services.inference.backends.base import UnfitAdapterError
from services.inference.encoder.backend import EncoderLimits
from services.inference.encoder.encoding import Encoded, Encoding
from services.inference.encoder.fetched_encoder import FetchedEncoderAdapter
from services.inference.encoder.step_loop import EncoderEngineConfig, EncoderSteps
from services.inference.encoder.text_queue import StepBudget
from services.inference.engine.fetched_adapter import FetchCost
from services.inference.engine.sequence import AdapterUse, Priority
from tests.support.fake_clock import FakeClock
from tests.support.plain_encoder import PlainEncoder, expected_vector, plain_weights
from tests.support.tiny_encoder import HIDDEN

NO_WEIGHTS = plain_weights(0.0).__class__({})


def make_head(seed, pooling="cls"):
    rng = np.random.default_rng(seed)
    return ClassifierHead(
        labels=(f"{seed}:a", f"{seed}:b"),
        pooling=pooling,
        normalise=False,
        out_of_scope=None,
        weight=rng.standard_normal((2, HIDDEN)).astype(np.float32),
        bias=np.zeros(2, np.float32),
    )


def fetched(mark, head=None, weights=None):
    weights = plain_weights(mark) if weights is None else weights
    return FetchedEncoderAdapter(weights=weights, head=head, cost=FetchCost())


class Inside:
    """The inside of an engine with `slots` slots, and what it told."""

    def __init__(self, slots=2):
        self.clock = FakeClock()
        self.backend = PlainEncoder()
        config = EncoderEngineConfig(
            model_directory=Path(),
            limits=EncoderLimits(max_loras=slots, max_lora_rank=8, max_step_tokens=64),
            budget=StepBudget(max_step_tokens=64, lower_step_tokens=32, aging_s=5.0),
            canary_token_ids=np.array([1, 2, 3], np.int32),
            pooling="mean",
            max_requests=99,
        )
        self.steps = EncoderSteps(self.backend, config, self.clock)
        self.ends = {}
        self.wanted = []
        self.refused = []
        self.loads = []
        self.evicted = []
        self.count = 0

    def add(self, *texts, adapters=(), wants_head=False, tenant="t", ticket=None, **changes):
        encoding = Encoding(
            encoding_id=self.count,
            texts=tuple(np.array(text, np.int32) for text in texts or [[5, 6]]),
            adapters=tuple(AdapterUse(*each) for each in adapters),
            wants_head=wants_head,
            priority=changes.get("priority", Priority.INTERACTIVE),
            tenant_id=tenant,
            ticket=self.count if ticket is None else ticket,
            arrived_s=self.clock(),
        )
        self.count += 1
        self.steps.add(encoding)
        self.take()
        return encoding

    def step(self):
        has_run = self.steps.step()
        self.take()
        self.clock.advance(0.1)
        return has_run

    def take(self):
        outbox = self.steps.take_outbox()
        for encoding_id, result in outbox.ends:
            assert encoding_id not in self.ends  # each ends once
            self.ends[encoding_id] = result
        self.wanted += [(each.digest, each.ticket) for each in outbox.wanted]
        self.refused += outbox.refused
        self.loads += [load.digest for load in outbox.loads]
        self.evicted += [eviction.digest for eviction in outbox.evictions]

    def load(self, digest, *arguments, **options):
        self.steps.adapters.load(digest, fetched(*arguments, **options))
        self.take()

    def num_references(self):
        return self.steps.slots.num_references


def test_texts_of_several_tenants_and_adapters_share_a_step():
    inside = Inside()
    inside.add([5, 6])
    inside.add([5, 6], adapters=[("a", 1.0)], wants_head=True, tenant="u")
    inside.add([7], [8, 9], adapters=[("b", 0.5)], tenant="v")
    assert inside.step()  # who needs no adapter does not wait
    assert inside.wanted == [("a", 1), ("b", 2)]
    inside.load("a", 1.0, make_head(1))
    inside.load("b", 2.0)
    assert inside.step()
    assert len(inside.backend.steps[-1]) == 3
    first, second, third = (inside.ends[number] for number in range(3))
    assert np.array_equal(first.vectors[0], expected_vector(np.array([5, 6]), "mean", []))
    assert np.array_equal(second.vectors[0], expected_vector(np.array([5, 6]), "cls", [(1, 1.0)]))
    assert second.head.labels == ("1:a", "1:b")
    assert [each.tolist() for each in third.vectors] == [
        expected_vector(np.array(ids), "mean", [(2, 0.5)]).tolist() for ids in ([7], [8, 9])
    ]
    assert third.head is None
    assert third.num_tokens == 3
    assert second.adapter_load_s > 0
    assert inside.num_references() == 0


def test_time_is_shared_by_tokens_and_adds_up():
    inside = Inside()
    plain = inside.backend.encode
    inside.backend.encode = lambda texts: (inside.clock.advance(0.6), plain(texts))[1]
    inside.add([5])
    inside.add([5, 6], [7, 8, 9])
    inside.step()
    assert inside.ends[0].engine_s == pytest.approx(0.1)
    assert inside.ends[1].engine_s == pytest.approx(0.5)
    assert inside.steps.status().step_s == pytest.approx(0.6)


def test_strength_0_is_the_base_model_with_the_classifier():
    inside = Inside()
    inside.add([5, 6], adapters=[("a", 0.0)], wants_head=True)
    inside.step()
    inside.load("a", 1.0, make_head(1))
    inside.step()
    assert np.array_equal(inside.ends[0].vectors[0], expected_vector(np.array([5, 6]), "cls", []))
    assert inside.ends[0].head.labels == ("1:a", "1:b")


def test_a_classifier_alone_takes_a_slot_and_no_factors():
    inside = Inside()
    inside.add([5, 6], adapters=[("a", 1.0)], wants_head=True)
    inside.step()
    inside.load("a", 0.0, make_head(1), weights=NO_WEIGHTS)
    inside.step()
    assert np.array_equal(inside.ends[0].vectors[0], expected_vector(np.array([5, 6]), "cls", []))
    assert inside.backend.slots == {}
    (slot,) = inside.steps.status().slots
    assert slot.size_bytes == 2 * HIDDEN * 4 + 2 * 4


def test_classes_from_an_adapter_without_a_classifier_are_refused_with_the_remedy():
    inside = Inside()
    inside.add(adapters=[("a", 1.0)], wants_head=True)
    inside.step()
    inside.load("a", 1.0)
    inside.add(adapters=[("a", 1.0)], wants_head=True)
    inside.step()
    for number in range(2):
        assert isinstance(inside.ends[number], InvalidRequestError)
        assert "embed" in inside.ends[number].message
    assert inside.num_references() == 0


def unfit(inside):
    def load_adapter(slot, weights):
        raise UnfitAdapterError("layer 0 query has rank 9")

    inside.backend.load_adapter = load_adapter


def broken(inside):
    def load_adapter(slot, weights):
        raise OSError

    inside.backend.load_adapter = load_adapter


def ineffective(inside):
    inside.backend.result = lambda text, vector: np.ones(HIDDEN, np.float32)


def overflowing(inside):
    inside.backend.result = lambda text, vector: vector * (np.nan if text.adapters else 1)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (unfit, AdapterRejectedError, "rank 9"),
        (broken, InternalError, "could not be loaded"),
        (ineffective, AdapterRejectedError, "changes nothing"),
        (overflowing, AdapterRejectedError, "overflow"),
    ],
)
def test_an_adapter_that_is_not_proven_is_refused_and_leaves_its_slot(fault, error, words):
    inside = Inside()
    fault(inside)
    inside.add(adapters=[("a", 1.0)])
    inside.add(adapters=[("a", 1.0)], tenant="u")
    inside.step()
    inside.load("a", 1.0)
    assert [digest for digest, _ in inside.refused] == ["a"]
    for number in range(2):
        assert isinstance(inside.ends[number], error)
        assert words in inside.ends[number].message
    assert inside.steps.status().slots == ()
    assert inside.backend.slots == {}


def test_a_classifier_whose_outputs_overflow_is_refused():
    inside = Inside()
    head = make_head(1)
    head.weight[:] = np.inf
    inside.add(adapters=[("a", 1.0)], wants_head=True)
    inside.step()
    inside.load("a", 0.0, head, weights=NO_WEIGHTS)
    assert isinstance(inside.ends[0], AdapterRejectedError)


def test_only_the_text_that_fails_takes_its_request_along():
    inside = Inside()

    def fail_on(texts):
        if any(text.token_ids[0] == 13 for text in texts):
            raise RuntimeError

    inside.backend.fail_on = fail_on
    inside.add([5])
    inside.add([6], [13], [7])
    inside.backend.result = lambda text, vector: vector * (np.inf if 99 in text.token_ids else 1)
    inside.add([99])
    inside.step()
    assert isinstance(inside.ends[0], Encoded)
    assert isinstance(inside.ends[1], InternalError)
    assert isinstance(inside.ends[2], InternalError)
    assert inside.steps.status().num_failed_texts == 2
    inside.add([5])
    inside.step()
    assert isinstance(inside.ends[3], Encoded)


def test_a_ticket_that_has_expired_costs_its_own_request_alone():
    inside = Inside()
    inside.add(adapters=[("a", 1.0)])
    inside.add(adapters=[("a", 1.0)], tenant="u")
    inside.step()
    assert inside.wanted == [("a", 0)]
    inside.steps.adapters.give_up("a", 0, TicketExpiredError("late"))
    inside.take()
    assert isinstance(inside.ends[0], TicketExpiredError)
    assert inside.wanted == [("a", 0), ("a", 1)]
    inside.load("a", 1.0)
    inside.step()
    assert isinstance(inside.ends[1], Encoded)


def test_a_failed_fetch_costs_its_tenant_and_leaves_the_slot():
    inside = Inside()
    inside.add(adapters=[("a", 1.0)])
    inside.add(adapters=[("a", 1.0)])
    inside.step()
    inside.steps.adapters.give_up("a", 0, ServiceUnavailableError("away"))
    inside.take()
    assert all(isinstance(inside.ends[n], ServiceUnavailableError) for n in range(2))
    assert inside.steps.status().slots == ()


def test_the_least_recently_used_goes_and_a_pinned_one_last():
    inside = Inside(slots=2)
    for digest in "ab":
        inside.add(adapters=[(digest, 1.0)])
        inside.step()
        inside.load(digest, ord(digest))
        inside.step()
    inside.steps.adapters.set_pinned(frozenset("a"))
    inside.add(adapters=[("c", 1.0)])
    inside.step()
    assert inside.evicted == ["b"]
    inside.load("c", 3.0)
    inside.step()
    assert isinstance(inside.ends[2], Encoded)


def test_a_deleted_adapter_leaves_its_slot_and_serves_nobody_any_more():
    inside = Inside()
    inside.add([5], adapters=[("a", 1.0)])
    inside.step()
    inside.load("a", 1.0)
    inside.steps.adapters.set_deleted(frozenset("a"))
    inside.add([6], adapters=[("a", 1.0)])
    inside.step()
    assert isinstance(inside.ends[0], Encoded)  # it had begun
    assert isinstance(inside.ends[1], AdapterNotFoundError)
    inside.step()
    assert inside.evicted == ["a"]


def test_a_warm_up_takes_only_what_nobody_needs():
    inside = Inside(slots=1)
    inside.steps.adapters.warm_up("a", None, fetched(1.0))
    inside.take()
    assert inside.loads == ["a"]
    inside.steps.adapters.warm_up("b", None, fetched(2.0))
    inside.steps.adapters.warm_up("c", "a", fetched(3.0))
    inside.take()
    assert inside.loads == ["a", "c"]
    inside.add([5], adapters=[("d", 1.0)])
    inside.step()
    inside.steps.adapters.warm_up("e", "d", fetched(3.0))
    inside.take()
    assert inside.loads == ["a", "c"]


def test_a_request_for_a_slot_is_overtaken_only_for_a_while():
    inside = Inside(slots=1)
    inside.add(adapters=[("a", 1.0)])
    inside.step()
    inside.load("a", 1.0)
    # One more than a step takes: the slot is never idle.
    inside.add([5] * 60, adapters=[("a", 1.0)])
    inside.add([5] * 60, adapters=[("a", 1.0)])
    inside.step()
    late = inside.add(adapters=[("b", 1.0)])
    for _ in range(100):
        inside.add([5] * 60, adapters=[("a", 1.0)])
        inside.step()
        if late.slots is not None:
            break
    assert 5.0 <= inside.clock() - late.arrived_s < 7.0
    assert inside.steps.status().num_slot_waits >= 1


@pytest.mark.parametrize("seed", range(25))
def test_random_histories_end_every_request_once_with_its_own_adapters(seed):
    """Arrivals, loads, failures, refusals, deletions, cancelling: nothing leaks, none is mixed."""
    rng = random.Random(seed)
    inside = Inside(slots=2)
    marks = {digest: float(number + 1) for number, digest in enumerate("abcd")}
    heads = {digest: make_head(number) for number, digest in enumerate("abcd")}
    requests, cancelled = {}, set()
    for _ in range(150):
        match rng.choice(["add", "add", "answer", "answer", "cancel", "delete", "step", "step"]):
            case "add":
                digest = rng.choice(["", *"abcd"])
                strength = rng.choice([0.0, 0.5, 1.0])
                wants_head = bool(digest) and rng.random() < 0.7
                texts = [[rng.randint(5, 90) for _ in range(rng.randint(1, 30))] for _ in range(3)]
                request = inside.add(
                    *texts,
                    adapters=[(digest, strength)] if digest else [],
                    wants_head=wants_head,
                    tenant=rng.choice("tu"),
                    priority=rng.choice(list(Priority)),
                )
                requests[request.encoding_id] = request
            case "answer" if inside.wanted:
                digest, ticket = inside.wanted.pop(rng.randrange(len(inside.wanted)))
                if rng.random() < 0.2:
                    error = rng.choice([TicketExpiredError, ServiceUnavailableError])("no")
                    inside.steps.adapters.give_up(digest, ticket, error)
                    inside.take()
                else:
                    inside.load(digest, marks[digest], heads[digest])
            case "cancel" if inside.count:
                number = rng.randrange(inside.count)
                inside.steps.cancel(number)
                if number not in inside.ends:
                    cancelled.add(number)
            case "delete":
                gone = frozenset(digest for digest in "abcd" if rng.random() < 0.1)
                inside.steps.adapters.set_deleted(gone)
            case _:
                inside.step()
    inside.steps.adapters.set_deleted(frozenset())
    for _ in range(500):
        while inside.wanted:
            digest, _ = inside.wanted.pop()
            inside.load(digest, marks[digest], heads[digest])
        inside.step()
    inside.take()
    assert set(inside.ends) | cancelled == set(requests)
    assert not set(inside.ends) & cancelled
    assert inside.num_references() == 0
    assert inside.steps.status().num_requests == 0
    for number, result in inside.ends.items():
        request = requests[number]
        if not isinstance(result, Encoded):
            continue
        uses = [(marks[use.digest], use.weight) for use in request.adapters if use.weight]
        pooling = "cls" if request.wants_head else "mean"
        for ids, vector in zip(request.texts, result.vectors, strict=True):
            assert np.array_equal(vector, expected_vector(ids, pooling, uses))
        assert result.head is (heads[request.digests[0]] if request.wants_head else None)
