"""`auto` in a request: when it is wrong, and what it is turned into."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from edgelora.errors import InvalidRequestError
from edgelora.v1.routing_pb2 import RoutingReason
from edgelora.v1.scheduler_service_pb2 import AcquireRequest
from services.chassis.settings import Settings
from services.scheduler.pressure.current import CurrentPressure
from services.scheduler.pressure.device import DeviceState, DimensionState, PressureLevel
from services.scheduler.pressure.settings import PressureSettings
from services.scheduler.routing.adapter_choice import AdapterChoice
from services.scheduler.routing.auto_selection import AutoSelection
from services.scheduler.routing.candidates import CandidateCache
from services.scheduler.routing.decision import RoutingRules
from services.scheduler.routing.router_source import RouterSource
from tests.support.candidate_shelf import CandidateShelf, claim_of
from tests.support.fake_clock import FakeClock
from tests.support.small_router import write_small_router

RULES = RoutingRules(top_k=2, min_share=0.1, min_mix_share=0.15, max_quality_loss=0.2)
AUTO = [{"adapter": "auto"}]
TEXT = "Write an e-mail to Tom about Friday"


@pytest.fixture
def shelf():
    return CandidateShelf()


@pytest.fixture
def pressure():
    settings = PressureSettings.read(Settings({}, "EDGELORA_SCHEDULER_"))
    return CurrentPressure(settings, FakeClock(), lambda restrictions: None)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def used():
    """Tenant -> adapters of its requests that wait or run."""
    return {}


@pytest.fixture
def rules():
    return RULES


@pytest.fixture
def auto(shelf, pressure, used, clock, rules, tmp_path):
    source = RouterSource([write_small_router(tmp_path / "router")], FakeClock())
    choice = AdapterChoice(source, CandidateCache(shelf), rules, FakeClock())
    return AutoSelection(choice, pressure, lambda tenant_id: used.get(tenant_id, set()), clock)


def device(**levels: PressureLevel) -> DeviceState:
    return DeviceState(
        **{
            name: DimensionState(level=levels.get(name, PressureLevel.NORMAL), since_s=0.0)
            for name in ("temperature", "memory", "battery")
        }
    )


async def choose(auto, adapters, text=TEXT):
    request = AcquireRequest(claim=claim_of("acme"), adapters=adapters, routing_text=text)
    return await auto.choose(request, "acme")


async def test_a_request_that_names_its_adapters_is_left_alone(auto):
    selections, routing = await choose(auto, [{"adapter": "mail", "strength": 0.5}])
    assert [(each.adapter, each.strength) for each in selections] == [("mail", 0.5)]
    assert routing is None
    assert await choose(auto, []) == ([], None)


@pytest.mark.parametrize(
    ("adapters", "text", "field"),
    [
        ([{"adapter": "auto", "strength": 1.0}], TEXT, "adapters[0].strength"),
        ([{"adapter": "auto"}, {"adapter": "auto"}], TEXT, "adapters[0].adapter"),
        ([{"adapter": "mail"}, {"adapter": "auto"}], TEXT, "adapters[1].adapter"),
        (AUTO, "", "routing_text"),
        (AUTO, " \n", "routing_text"),
    ],
)
async def test_a_wrong_auto_names_the_field(auto, adapters, text, field):
    with pytest.raises(InvalidRequestError) as caught:
        await choose(auto, adapters, text)
    assert caught.value.field == field


async def test_it_becomes_digests_with_their_shares_as_strengths(auto, shelf):
    mail = shelf.put("acme", 1, TEXT, alias="mail")
    cake = shelf.put("acme", 2, TEXT, alias="letters")
    selections, routing = await choose(auto, AUTO)
    told = [(each.digest, each.alias, each.share) for each in routing.adapters]
    assert [(digest, alias) for digest, alias, _ in told] == [(mail, "mail"), (cake, "letters")]
    assert [(each.adapter, each.strength) for each in selections] == [
        (digest, pytest.approx(share)) for digest, _, share in told
    ]
    assert sum(share for *_, share in told) + routing.base_share == pytest.approx(1.0)
    assert routing.reason == RoutingReason.ROUTING_REASON_BEST
    assert routing.num_candidates == 2
    assert routing.HasField("decision_time")


async def test_the_base_model_is_no_selection(auto):
    selections, routing = await choose(auto, AUTO)
    assert selections == []
    assert routing.reason == RoutingReason.ROUTING_REASON_BASE
    assert (routing.base_share, list(routing.adapters)) == (1.0, [])


async def test_a_warm_device_leaves_the_high_ranks_out(auto, shelf, pressure):
    large = shelf.put("acme", 1, TEXT, lowest_rank=64)
    small = shelf.put("acme", 2, TEXT, lowest_rank=16)

    async def served() -> set[str]:
        selections, _ = await choose(auto, AUTO)
        return {each.adapter for each in selections}

    pressure.show(device())
    assert await served() == {large, small}
    pressure.show(device(temperature=PressureLevel.ELEVATED))
    assert await served() == {small}
    pressure.show(device())
    assert await served() == {large, small}


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (PressureLevel.NORMAL, 0.0),
        (PressureLevel.ELEVATED, 0.5),
        (PressureLevel.CRITICAL, 1.0),
        (PressureLevel.UNKNOWN, None),
    ],
)
async def test_the_network_is_told_the_state_and_what_is_unknown(auto, pressure, level, severity):
    seen = []

    class Spy:
        async def choose(self, claim, tenant_id, text, *, device, max_rank, on_their_way):
            seen.append(device)
            raise InvalidRequestError("seen")

    pressure.show(device(battery=level))
    with pytest.raises(InvalidRequestError, match="seen"):
        await choose(AutoSelection(Spy(), pressure, lambda _: set(), FakeClock()), AUTO)
    assert (seen[0].battery, seen[0].temperature) == (severity, 0.0)


@pytest.fixture
def versions(shelf):
    """Near-equals; which one is the best depends on the text."""
    texts = (TEXT, f"{TEXT}!")
    return {text: shelf.put("acme", number, text) for number, text in enumerate(texts)}


ONE = pytest.mark.parametrize("rules", [replace(RULES, top_k=1)], ids=["top 1"])


@ONE
async def test_what_a_request_of_the_tenant_loads_counts_as_resident(auto, versions, used):
    best, near = versions.values()

    async def served() -> tuple[str, int]:
        selections, routing = await choose(auto, AUTO)
        return selections[0].adapter, routing.reason

    used["acme"] = {near}
    assert await served() == (near, RoutingReason.ROUTING_REASON_RESIDENT)
    used["acme"] = {near, best}
    assert await served() == (best, RoutingReason.ROUTING_REASON_BEST)


@ONE
async def test_what_another_tenant_loads_counts_for_nothing(auto, versions, used):
    best, near = versions.values()
    used["mallory"] = {near}
    selections, routing = await choose(auto, AUTO)
    assert selections[0].adapter == best
    assert routing.reason == RoutingReason.ROUTING_REASON_BEST


@ONE
async def test_requests_that_come_together_agree_on_what_to_load(auto, versions, clock):
    made = await asyncio.gather(*(choose(auto, AUTO, text) for text in [*versions] * 4))
    assert len({selections[0].adapter for selections, _ in made}) == 1
    # The queue and the leases know of a request by then; without one the choice is forgotten.
    clock.advance(1.0)
    best = {text: (await choose(auto, AUTO, text))[0][0].adapter for text in [*versions][-1:]}
    assert best == {text: versions[text] for text in best}
