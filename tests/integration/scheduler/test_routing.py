"""`auto` on a whole node: real store, scheduler, worker and model; a router made by hand."""

from __future__ import annotations

import json
from contextlib import aclosing

import pytest
import pytest_asyncio

from edgelora.errors import InvalidRequestError
from edgelora.generation import Accepted, Delta, Done, GenerationOptions
from edgelora.v1.adapter_pb2 import AdapterState
from tests.support.gateway_bench import gateway_bench
from tests.support.node_bench import NodeBench
from tests.support.small_router import small_router_file, write_small_router

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ROOMY = {"max_concurrent_requests": 500, "max_tokens_per_minute": 10**9}
SHORT = GenerationOptions(max_tokens=4, ignore_eos=True)
CARDS = {
    "mail": ("Write an e-mail to Ann", "Send Tom an e-mail about the invoice", "Reply by e-mail"),
    "cake": ("How do I bake a cake?", "A recipe for pancakes with eggs", "Roast a chicken"),
}
MAIL = "Write an e-mail to Tom about Friday"
CAKE = "How do I bake pancakes?"
STRANGE = "zzyx qwvk 8831 ~~~"
CANARY = "xylophonist-8831-canary"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node():
    async with gateway_bench() as bench:
        running = NodeBench(bench)
        await running.start(
            ROUTER_FILE=str(write_small_router(router_file(running))),
            ROUTER_MAX_QUALITY_LOSS="0.2",
        )
        yield running


def router_file(node):
    return node.gateway.directory / "router" / "router.safetensors"


def with_card(node, seed: int, *examples: str):
    """The directory of a random adapter that says what it is for."""
    directory = node.adapter(seed)
    card = {"description": "", "examples": examples}
    (directory / "card.json").write_text(json.dumps(card), encoding="utf-8")
    return directory


async def register(node, client, seed: int, alias: str, *examples: str) -> str:
    registered = await client.register_adapter(with_card(node, seed, *examples), alias=alias)
    return registered.adapter.digest


async def ask(client, text, adapters="auto") -> tuple[Accepted, list[int]]:
    """The first event and the token ids of an answer that ended well."""
    messages = [("user", text)] if isinstance(text, str) else text
    events = [event async for event in client.chat(messages, adapters=adapters, options=SHORT)]
    assert isinstance(events[-1], Done)
    tokens = [token for event in events if isinstance(event, Delta) for token in event.token_ids]
    return events[0], tokens


async def chosen(client, text: str) -> list[str]:
    """Aliases of what the router chooses."""
    accepted, _ = await ask(client, text)
    return [each.alias for each in accepted.routing.adapters]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def acme(node):
    """A tenant with one adapter for mails and one for recipes."""
    client = await node.gateway.client("acme", **ROOMY)
    for seed, alias in enumerate(CARDS):
        await register(node, client, seed, alias, *CARDS[alias])
    return client


async def test_a_mail_goes_to_the_mail_adapter_and_what_fits_nothing_to_the_base(acme):
    accepted, tokens = await ask(acme, MAIL)
    routing = accepted.routing
    (routed,) = routing.adapters
    assert routed.alias == "mail"
    assert routed.share + routing.base_share == pytest.approx(1.0)
    assert (routing.reason, routing.num_candidates) == ("best", 2)
    assert routing.decision_s > 0
    # It is served as if it had been named, with its share as strength.
    (used,) = accepted.adapters
    assert (used.digest, used.strength) == (routed.digest, pytest.approx(routed.share))
    assert (await ask(acme, MAIL, {"mail": used.strength}))[1] == tokens

    assert await chosen(acme, CAKE) == ["cake"]
    accepted, tokens = await ask(acme, STRANGE)
    assert (accepted.routing.reason, accepted.routing.base_share) == ("base", 1.0)
    assert (accepted.adapters, accepted.routing.adapters) == ((), ())
    assert tokens == (await ask(acme, STRANGE, ()))[1]


async def test_the_last_message_counts_and_plain_prompts_are_routed_too(acme):
    turns = [("user", CAKE), ("assistant", "Mix eggs and flour."), ("user", MAIL)]
    accepted, _ = await ask(acme, turns)
    assert [each.alias for each in accepted.routing.adapters] == ["mail"]
    async with aclosing(acme.generate(CAKE, adapters="auto", options=SHORT)) as events:
        accepted = await anext(events)
    assert [each.alias for each in accepted.routing.adapters] == ["cake"]


async def test_a_new_adapter_is_routable_at_once_and_a_deleted_one_never_again(node):
    client = await node.gateway.client("changing", **ROOMY)
    assert await chosen(client, MAIL) == []
    digest = await register(node, client, 20, "mail", *CARDS["mail"])
    assert await chosen(client, MAIL) == ["mail"]
    await client.delete_adapter(digest)
    for _ in range(3):
        assert await chosen(client, MAIL) == []


async def test_another_tenants_adapter_is_never_chosen_however_well_it_fits(node, acme):
    owner = await node.gateway.client("owner", **ROOMY)
    assert await chosen(acme, STRANGE) == []
    await register(node, owner, 30, "strange", STRANGE)
    assert await chosen(owner, STRANGE) == ["strange"]  # and it is in memory now
    accepted, _ = await ask(acme, STRANGE)
    assert (accepted.routing.reason, accepted.routing.num_candidates) == ("base", 2)


async def test_a_version_in_memory_is_taken_for_one_that_is_not(node):
    client = await node.gateway.client("versions", **ROOMY)
    await register(node, client, 40, "best", MAIL, *CARDS["mail"])
    near = await register(node, client, 41, "near", f"{MAIL}!", *CARDS["mail"])
    await ask(client, "Hi", "near")
    # The worker tells the store a moment later; the test's own limit ends the wait.
    while (await client.get_adapter("near")).adapter.state != AdapterState.ADAPTER_STATE_RESIDENT:
        pass
    accepted, _ = await ask(client, MAIL)
    assert accepted.routing.reason == "resident"
    assert [each.digest for each in accepted.adapters] == [near]
    # Nothing was loaded for it: the best one is where it was.
    assert not (await client.get_adapter("best")).adapter.usage.num_loads


async def test_what_a_user_wrote_is_in_no_log(node, capfd):
    client = await node.gateway.client("private", **ROOMY)
    await register(node, client, 50, "mail", f"{CANARY} card", *CARDS["mail"])
    await ask(client, f"{MAIL} {CANARY} prompt")
    with pytest.raises(InvalidRequestError):
        await ask(client, f"{CANARY} refused", {"auto": 0.5})
    logs = [path.read_text() for path in node.gateway.directory.glob("*.out")]
    logs += [path.read_text() for path in node.gateway.directory.glob("*.err")]
    assert len(logs) >= 6
    assert any("route_reason" in log for log in logs)
    printed = capfd.readouterr()
    assert not [log for log in (*logs, printed.out, printed.err) if CANARY in log]


async def test_auto_with_a_strength_or_with_others_names_the_field(node, acme):
    for adapters, field in (
        ({"auto": 0.5}, "adapters[0].strength"),
        (["auto", "mail"], "adapters[0].adapter"),
        (["mail", "auto"], "adapters[1].adapter"),
        (["auto", "auto"], "adapters[0].adapter"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await ask(acme, MAIL, adapters)
        assert caught.value.field == field
    with pytest.raises(InvalidRequestError):
        await acme.register_adapter(node.adapter(60), alias="auto")


async def test_a_broken_file_keeps_the_router_and_a_good_one_displaces_it(node, acme):
    log = node.gateway.scheduler.log
    router_file(node).write_bytes(small_router_file().encoded()[:-1])
    while not log("router_refused"):
        assert await chosen(acme, MAIL) == ["mail"]
    assert await chosen(acme, MAIL) == ["mail"]
    # Of this one nothing is like an e-mail enough.
    write_small_router(router_file(node), base_cosine=2.0)
    while len(log("router_loaded")) < 2:
        await chosen(acme, MAIL)
    assert await chosen(acme, MAIL) == []
