"""The benchmark of classes against a gateway: what it asks for, and that it counts every end."""

import contextlib

import pytest

from bench import priority
from bench.deployment import Deployment, PlacedAdapter
from bench.priority import Plan, run_plan
from bench.priority_cases import CasesPlan
from bench.result import BenchOptions
from edgelora.client import EdgeLoraClient
from tests.support.answering_gateway import AnsweringGateway, serving

pytestmark = pytest.mark.integration

PLAN = Plan(
    duration_s=0.4,
    num_rounds=1,
    people_period_s=0.05,
    job_size=4,
    job_output=(2, 4),
    cases=CasesPlan(
        light_s=0.2,
        num_light_rounds=1,
        settle_s=0.1,
        backlog_s=0.3,
        flood_s=0.4,
        starvation_s=0.2,
        batch_aging_s=1.0,
        engine_aging_s=1.0,
    ),
)


class Words:
    """Writes prompts of so many words."""

    def __init__(self, directory):
        pass

    def write(self, num_tokens, seed):
        return " ".join(["word"] * num_tokens)


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Runs the plan on two gateways in the place of its two stacks."""
    waiting = []

    @contextlib.asynccontextmanager
    async def node(options, settings, num_tenants):
        place = tmp_path / f"node-{len(waiting)}"
        place.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            address = await stack.enter_async_context(serving(waiting.pop(0), place))
            clients = [
                await stack.enter_async_context(EdgeLoraClient(address, "key"))
                for _ in range(num_tenants)
            ]
            yield Deployment(clients)

    async def register(node, model, count, **how):
        node.adapters = [
            PlacedAdapter(node.clients[number % len(node.clients)], f"a{number}")
            for number in range(count)
        ]

    monkeypatch.setattr(priority, "deployment", node)
    monkeypatch.setattr(priority, "register_random_adapters", register)
    monkeypatch.setattr(priority, "load_base_model", lambda options: None)
    monkeypatch.setattr(priority, "PromptWriter", Words)

    async def run(with_classes, plain):
        waiting.extend([with_classes, plain])
        result = await run_plan(PLAN, BenchOptions(model_directory=tmp_path))
        return result.results, {target.name: target for target in result.targets}

    return run


def is_of_the_flood(request):
    return (len(request.prompt.split()), request.options.stop.max_tokens) == (8, 96)


async def test_the_same_trace_goes_out_with_classes_and_as_one(measure):
    with_classes, plain = AnsweringGateway(is_refused=is_of_the_flood), AnsweringGateway()
    results, targets = await measure(with_classes, plain)
    assert with_classes.classes() == {"INTERACTIVE", "BACKGROUND", "BATCH"}
    assert plain.classes() == {"INTERACTIVE"}
    served = {row["class"]: row["requests"] for row in results["waits"]}
    assert len(served) == 6
    for name in ("interactive", "background", "batch"):
        assert served[f"{name}, with classes"] == served[f"{name}, first come first served"]
    assert served["batch, with classes"] >= 4
    ends = results["ends"]
    # What the warm-up and the measured job sent is no part of it.
    num_before = 8 + 8 + 4
    assert ends["sent"] == len(with_classes.requests) + len(plain.requests) - num_before
    assert ends["sent"] == ends["done"] + ends["refused"]
    assert results["flood"]["sent"] == results["flood"]["refused"] == 40
    assert targets["accepted requests that did not end exactly once"].ok
    assert all(target.value is not None for target in targets.values())


async def test_an_accepted_request_without_an_end_is_reported(measure):
    _, targets = await measure(AnsweringGateway(lost=20), AnsweringGateway())
    lost = targets["accepted requests that did not end exactly once"]
    assert (lost.value, lost.ok) == (1, False)
