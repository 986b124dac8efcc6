"""What was served, in headers and in the field `edgelora`."""

from edgelora.v1 import gateway_service_pb2 as pb
from edgelora.v1.adapter_pb2 import ResolvedAdapter
from edgelora.v1.degradation_pb2 import Degradation, DegradationStep
from edgelora.v1.generation_pb2 import Usage
from edgelora.v1.routing_pb2 import RoutedAdapter, Routing, RoutingReason
from services.gateway.http.served import served_document, served_headers

ASKED, CUT = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_the_base_model_has_no_adapters():
    accepted = pb.Accepted(request_id="r")
    assert served_headers(accepted) == {"x-edgelora-adapters": "none"}
    assert served_document(accepted) == {
        "request_id": "r",
        "adapters": [],
        "degradations": [],
        "routing": None,
    }


def test_a_degraded_answer_says_what_was_asked_served_and_why():
    accepted = pb.Accepted(
        adapters=[ResolvedAdapter(digest=CUT, strength=0.5, alias="home", version_of_digest=ASKED)],
        degradations=[
            Degradation(
                step=DegradationStep.DEGRADATION_STEP_RANK_CUT,
                rule="temperature_elevated",
                reading=71.5,
                adapter_digest=ASKED,
                adapter_alias="home",
                served_digest=CUT,
                explanation="The device is warm.",
            ),
            Degradation(
                step=DegradationStep.DEGRADATION_STEP_SHORTER_OUTPUT,
                rule="battery_low",
                max_output_tokens=64,
            ),
        ],
    )
    assert served_headers(accepted) == {
        "x-edgelora-adapters": f"{CUT};strength=0.5",
        "x-edgelora-degraded": "rank_cut temperature_elevated, shorter_output battery_low",
    }
    document = served_document(accepted)
    assert document["adapters"] == [
        {"id": "home", "digest": CUT, "weight": 0.5, "version_of": ASKED}
    ]
    assert document["degradations"] == [
        {
            "step": "rank_cut",
            "rule": "temperature_elevated",
            "reading": 71.5,
            "adapter": "home",
            "served": CUT,
            "max_output_tokens": None,
            "explanation": "The device is warm.",
        },
        {
            "step": "shorter_output",
            "rule": "battery_low",
            "reading": None,
            "adapter": None,
            "served": None,
            "max_output_tokens": 64,
            "explanation": "",
        },
    ]


def test_the_routers_choice_is_told():
    routing = Routing(
        reason=RoutingReason.ROUTING_REASON_BEST,
        base_share=0.25,
        adapters=[RoutedAdapter(digest=ASKED, alias="home", share=0.75)],
    )
    assert served_document(pb.Accepted(routing=routing))["routing"] == {
        "reason": "best",
        "base_share": 0.25,
        "adapters": [{"id": "home", "digest": ASKED, "share": 0.75}],
    }


def test_times_are_seconds():
    usage = Usage()
    usage.queue_time.FromMilliseconds(5)
    usage.total_time.FromMilliseconds(1500)
    times = served_document(pb.Accepted(), usage)["times"]
    assert (times["queue_s"], times["total_s"], times["engine_s"]) == (0.005, 1.5, 0.0)
