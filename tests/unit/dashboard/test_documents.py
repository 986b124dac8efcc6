import json
from dataclasses import replace

import pytest

from edgelora.v1.adapter_pb2 import Adapter, AdapterState
from edgelora.v1.adapter_store_service_pb2 import LibraryEntry, ListLibraryResponse
from edgelora.v1.encoder_service_pb2 import GetEncoderStatusResponse
from edgelora.v1.monitor_service_pb2 import DeviceSnapshot, ProcessSample
from services.gateway.dashboard.device_document import device_document
from services.gateway.dashboard.documents import history_point, library_document, node_document
from services.gateway.dashboard.engine_window import AdapterUse, EngineUse
from services.gateway.dashboard.node_look import EncoderLook, NodeLook

EMPTY = NodeLook(
    at_unix_s=100.0,
    model=None,
    services={},
    engine=None,
    use=None,
    queues=None,
    tiers=None,
    monitored=None,
    encoder=None,
    latencies={},
    refusals=(),
    pressure_changes=(),
)


def use_of(num_adapters):
    adapters = tuple(
        AdapterUse(
            digest=f"sha256:{number}",
            share=0.5 / num_adapters,
            output_tokens_per_s=10.0,
            prompt_tokens_per_s=1.0,
        )
        for number in range(num_adapters)
    )
    return EngineUse(
        share=0.5,
        output_tokens_per_s=10.0 * num_adapters,
        prompt_tokens_per_s=1.0 * num_adapters,
        adapters=adapters,
    )


def test_a_point_names_the_busiest_and_adds_up_the_rest():
    point = history_point(replace(EMPTY, use=use_of(200)))
    assert len(point["adapters"]) == 13
    assert sum(share for share, _ in point["adapters"].values()) == pytest.approx(0.5)
    assert sum(tokens for _, tokens in point["adapters"].values()) == pytest.approx(2000.0)


def test_an_encoder_is_told_of_where_there_is_one():
    assert node_document(EMPTY)["encoder"] is None
    status = GetEncoderStatusResponse(num_adapter_slots=32, num_resident_adapters=2)
    look = EncoderLook(name="minilm", texts_per_s=12.5, status=status)
    assert node_document(replace(EMPTY, encoder=look))["encoder"] == {
        "name": "minilm",
        "texts_per_s": 12.5,
        "num_adapters": 2,
        "num_adapter_slots": 32,
    }
    silent = EncoderLook(name="minilm", texts_per_s=None, status=None)
    assert node_document(replace(EMPTY, encoder=silent))["encoder"]["num_adapters"] is None


def test_the_node_tells_every_adapter():
    document = node_document(replace(EMPTY, use=use_of(200)))
    assert len(document["use"]["adapters"]) == 200


def test_where_nobody_answers_everything_is_unknown():
    document = json.loads(json.dumps(node_document(EMPTY)))
    unknown = {name for name, value in document.items() if value is None}
    assert unknown >= {"model", "engine", "use", "queues", "restrictions", "tiers", "device"}
    assert library_document(None) is None


def test_what_no_sensor_tells_is_unknown():
    document = device_document(
        DeviceSnapshot(processes=[ProcessSample(service="gateway", rss_bytes=5)])
    )
    for name in ("temperature", "frequency", "utilisation", "memory_total", "battery"):
        assert document[name] is None, name
    assert document["processes"][0]["growth_per_hour"] is None
    assert document["processes"][0]["bytes"] == 5


def test_the_library_tells_place_pin_and_refusal():
    adapter = Adapter(
        rank=16, is_on_flash=True, is_pinned=True, state=AdapterState.ADAPTER_STATE_FAILED
    )
    entry = LibraryEntry(digest="sha256:a", names=["acme/notes"], num_tenants=2, adapter=adapter)
    document = library_document(ListLibraryResponse(entries=[entry], num_adapters=9))
    assert document["num_adapters"] == 9
    (shown,) = document["entries"]
    assert shown["names"] == ["acme/notes"]
    assert (shown["is_on_flash"], shown["is_pinned"], shown["is_refused"]) == (True, True, True)
