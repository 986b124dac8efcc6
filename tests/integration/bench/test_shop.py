"""A shop that is kept open: every request has an end, and one that has none is reported."""

import os

import pytest

from bench.deployment import Deployment, PlacedAdapter
from bench.scenario_shop import Plan, keep_shop
from edgelora.client import EdgeLoraClient
from edgelora.v1.generation_pb2 import PriorityClass
from tests.support.answering_gateway import AnsweringGateway, serving

pytestmark = pytest.mark.integration

PLAN = Plan(duration_s=0.3, num_adapters=8, look_every_s=0.1)


class Words:
    """Writes prompts of so many words."""

    def write(self, num_tokens, seed):
        return " ".join(["word"] * num_tokens)


@pytest.fixture
def keep(tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    (pids / "gateway.pid").write_text(f"{os.getpid()}\n")

    async def run(gateway):
        async with serving(gateway, tmp_path) as address, EdgeLoraClient(address, "key") as client:
            node = Deployment([client] * 4)
            node.adapters = [PlacedAdapter(client, f"a{number}") for number in range(8)]
            result = await keep_shop(node, pids, PLAN, Words(), 1)
        targets = {target.name: (target.value, target.ok) for target in result.targets}
        return result.results, targets

    return run


async def test_answers_of_all_classes_and_adapters_are_counted(keep):
    gateway = AnsweringGateway()
    results, targets = await keep(gateway)
    assert gateway.classes() == {"INTERACTIVE", "BACKGROUND", "BATCH"}
    assert {one.adapters[0].adapter for one in gateway.requests} == {f"a{n}" for n in range(8)}
    ends = results["ends"]
    assert ends["sent"] == ends["done"] == ends["accepted_ended_once"] == len(gateway.requests)
    assert results["in_flight"] == 8
    assert results["tokens_per_s"] > 0
    assert all(ok for _, ok in targets.values())
    assert [row["process"] for row in results["memory"]] == ["gateway", "all"]


async def test_a_lost_request_is_reported_as_lost(keep):
    results, targets = await keep(AnsweringGateway(lost=3))
    assert targets["requests lost"] == (1, False)
    assert results["ends"]["done"] == results["ends"]["sent"] - 1
    assert targets["errors that were no declared refusals"] == (0, True)


async def test_an_undeclared_error_is_reported_and_a_declared_refusal_is_none(keep):
    def is_batch(request):
        return request.priority == PriorityClass.PRIORITY_CLASS_BATCH

    results, targets = await keep(AnsweringGateway(is_refused=is_batch, failed=3))
    assert results["people"][-1]["refused"] == results["ends"]["refused_by"]["QUEUE_FULL"] > 0
    assert targets["errors that were no declared refusals"] == (1, False)
    assert targets["requests lost"] == (0, True)
