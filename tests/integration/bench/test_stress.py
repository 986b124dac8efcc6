"""The stress benchmark on a real stack: a hot phase between two calm ones."""

import pytest

from bench.process_watch import ProcessWatch
from bench.result import BenchOptions
from bench.stress import Measured, Plan, result, run_plan
from bench.stress_adapters import ADAPTERS
from bench.stress_trace import TRACE
from bench.tenant_loop import Demand, DemandLoop
from edgelora.v1.gateway_service_pb2 import GetStatusResponse
from edgelora.v1.scheduler_service_pb2 import Restriction
from tests.support.prepared_model import prepared_model
from tests.support.request_records import record

pytestmark = pytest.mark.integration

PHASES = {phase.name: phase for phase in TRACE}
PLAN = Plan(
    trace=[PHASES["46 C"], PHASES["memory 86 %"]],
    adapters=ADAPTERS[:4],
    settle_s=1.2,
    measured_s=0.5,
)


_TOKENS = {"input_tokens": (1, 1), "output_tokens": (1, 1)}


async def test_each_phase_has_its_state_and_what_was_switched_off():
    options = BenchOptions(model_directory=prepared_model())
    result = await run_plan(PLAN, options)
    hot, full = result.results["phases"]
    assert hot["state"] == "temperature elevated"
    assert set(hot["switched_off"]) <= {"cut r64v", "off r64"}
    assert full["state"] == "memory critical"
    assert set(full["refused"]) <= {"memory_critical"}
    assert {"rank_cut", "adapter_off", "refusal"} <= set(result.results["steps_seen"])
    targets = {target.name: target for target in result.targets}
    for name in ("errors that were no declared refusals", "requests lost", "processes that ended"):
        assert targets[name].ok, name
    assert "EDGELORA_MONITOR_DWELL" in options.settings
    assert "EDGELORA_MONITOR_ROOT" not in options.settings


def test_a_crash_and_a_rule_that_stays_are_reported():
    def measured(name, **status):
        return Measured(
            phase=PHASES[name], from_s=0.0, until_s=10.0, status=GetStatusResponse(**status)
        )

    loop = DemandLoop(Demand(name="voice", adapters=[], num_in_flight=1, **_TOKENS), None, "")
    loop.records = [record(1.0), record(2.0, finished=None, num_ends=0)]
    last = measured("sensor back", restrictions=[Restriction(rule="memory_elevated")])
    watch = ProcessWatch({}, changed={"monitor"})
    found = result([measured("46 C"), last], [loop], watch)
    targets = {target.name: target for target in found.targets}
    assert found.results["processes_changed"] == ["monitor"]
    assert not targets["processes that ended"].ok
    assert not targets["requests lost"].ok
    assert not targets["rules that hold in the last phase"].ok
    assert targets["tokens a second, last phase to first"].value == 1.0
    assert [row["errors"] for row in found.results["phases"]] == [1, 1]
