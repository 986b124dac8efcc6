"""The choice itself: from the text, among the tenant's own adapters, within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from edgelora.errors import RouterMissingError, ServiceUnavailableError
from edgelora.routing import DeviceState, Router
from services.scheduler.routing.adapter_choice import AdapterChoice
from services.scheduler.routing.candidates import CandidateCache
from services.scheduler.routing.decision import Reason, RoutingRules
from services.scheduler.routing.router_source import RouterSource
from tests.support.candidate_shelf import CandidateShelf, claim_of
from tests.support.fake_clock import FakeClock
from tests.support.small_router import write_small_router

RULES = RoutingRules(top_k=2, min_share=0.1, min_mix_share=0.15, max_quality_loss=0.2)
MAIL = ("Write an e-mail to Ann", "Send Tom an e-mail about the invoice", "Reply to this e-mail")
CAKE = ("How do I bake a cake?", "A recipe for pancakes with eggs", "Roast a chicken")
CALM = DeviceState(temperature=0.0, memory=0.0, battery=0.0)


@pytest.fixture
def shelf():
    return CandidateShelf()


@pytest.fixture
def choice(shelf, tmp_path):
    source = RouterSource([write_small_router(tmp_path / "router")], FakeClock())
    return AdapterChoice(source, CandidateCache(shelf), RULES, FakeClock())


async def choose(choice, text, tenant_id="acme", *, device=CALM, max_rank=None):
    return await choice.choose(
        claim_of(tenant_id), tenant_id, text, device=device, max_rank=max_rank
    )


def chosen(made) -> list[str]:
    return [candidate.digest for candidate, _ in made.adapters]


async def test_the_text_decides_and_what_fits_nothing_goes_to_the_base(choice, shelf):
    mail, cake = shelf.put("acme", 1, *MAIL), shelf.put("acme", 2, *CAKE)
    assert chosen(await choose(choice, "Write an e-mail to Tom about Friday")) == [mail]
    assert chosen(await choose(choice, "How do I bake pancakes?")) == [cake]
    base = await choose(choice, "zzyx qwvk 8831 ~~~")
    assert (base.reason, base.adapters, base.base_share) == (Reason.BASE, [], 1.0)
    assert base.num_candidates == 2


async def test_a_tenant_without_adapters_gets_the_base(choice):
    made = await choose(choice, "Write an e-mail to Tom")
    assert (made.reason, made.num_candidates) == (Reason.BASE, 0)


async def test_anothers_adapter_with_a_perfect_card_is_never_scored_nor_chosen(
    choice, shelf, monkeypatch
):
    """The spy sees every prototype that reaches the scorer."""
    text = "Write an e-mail to Tom about Friday"
    seen: list[np.ndarray] = []
    score = Router.scores

    def spy(router, vector, table, device, resident):
        seen.append(table.examples)
        return score(router, vector, table, device, resident)

    monkeypatch.setattr(Router, "scores", spy)
    own = shelf.put("acme", 1, *CAKE)
    alone = await choose(choice, text)
    expected = list(seen)
    foreign = shelf.put("mallory", 2, text, description=text)
    shelf.resident = {foreign}
    assert chosen(await choose(choice, text, "mallory")) == [foreign]
    seen.clear()
    made = await choose(choice, text)
    assert foreign not in chosen(made)
    assert chosen(made) in ([], [own])
    assert made == alone, "nothing of the decision depends on another tenant"
    assert len(seen) == len(expected) == 2
    for table, before in zip(seen, expected, strict=True):
        np.testing.assert_array_equal(table, before)


async def test_a_new_adapter_is_chosen_by_its_card_at_once_and_a_deleted_one_never(choice, shelf):
    text = "Write an e-mail to Tom about Friday"
    shelf.put("acme", 1, *CAKE)
    assert chosen(await choose(choice, text)) == []
    mail = shelf.put("acme", 2, *MAIL)
    assert chosen(await choose(choice, text)) == [mail]
    shelf.delete("acme", mail)
    assert chosen(await choose(choice, text)) == []


async def test_a_resident_version_is_taken_for_the_best_one_within_the_bound(choice, shelf):
    text = "Write an e-mail to Tom about Friday"
    best = shelf.put("acme", 1, *MAIL, text)
    near = shelf.put("acme", 2, *MAIL, f"{text}!")
    shelf.put("acme", 3, *CAKE)
    made = await choose(choice, text)
    assert (chosen(made)[0], made.reason, made.quality_loss) == (best, Reason.BEST, 0.0)
    shelf.resident = {near}
    made = await choose(choice, text)
    assert (chosen(made), made.reason) == ([near], Reason.RESIDENT)
    assert 0 < made.quality_loss < RULES.max_quality_loss
    shelf.resident = {near, best}
    assert (await choose(choice, text)).reason is Reason.BEST


async def test_a_resident_stranger_is_not_taken(choice, shelf):
    mail, cake = shelf.put("acme", 1, *MAIL), shelf.put("acme", 2, *CAKE)
    shelf.resident = {cake}
    assert chosen(await choose(choice, "Write an e-mail to Tom about Friday")) == [mail]


async def test_adapters_above_the_ceiling_are_out_before_anything_is_scored(choice, shelf):
    text = "Write an e-mail to Tom about Friday"
    shelf.put("acme", 1, *MAIL, text, lowest_rank=32)
    small = shelf.put("acme", 2, *MAIL, lowest_rank=16)
    made = await choose(choice, text, max_rank=16)
    assert (chosen(made), made.num_candidates) == ([small], 1)
    assert (await choose(choice, text, max_rank=8)).reason is Reason.BASE


async def test_the_device_reaches_the_network(choice, shelf, monkeypatch):
    seen = []
    score = Router.scores

    def spy(router, vector, table, device, resident):
        seen.append(device)
        return score(router, vector, table, device, resident)

    monkeypatch.setattr(Router, "scores", spy)
    shelf.put("acme", 1, *MAIL)
    hot = DeviceState(temperature=1.0, memory=0.0, battery=None)
    await choose(choice, "Write an e-mail", device=hot)
    assert set(seen) == {hot}


async def test_a_long_text_is_routed_as_well(choice, shelf):
    mail = shelf.put("acme", 1, *MAIL)
    assert chosen(await choose(choice, "Write an e-mail to Ann. " * 170)) == [mail]


async def test_what_is_missing_is_told(shelf, tmp_path, choice):
    shelf.is_away = True
    with pytest.raises(ServiceUnavailableError, match="adapter store"):
        await choose(choice, "Hi")
    bare = AdapterChoice(
        RouterSource([tmp_path / "none"], FakeClock()), CandidateCache(shelf), RULES, FakeClock()
    )
    with pytest.raises(RouterMissingError, match="edgelora router train"):
        await choose(bare, "Hi")
