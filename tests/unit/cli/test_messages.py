"""Answers of the node as documents."""

import json
import math

from edgelora.cli.messages import (
    adapter_document,
    status_document,
    tenant_document,
)
from edgelora.cli.status import _print
from edgelora.v1.adapter_pb2 import Adapter, AdapterState
from edgelora.v1.admin_service_pb2 import ROLE_USER, Tenant, TenantQuotas
from edgelora.v1.gateway_service_pb2 import GetStatusResponse, ServiceStatus
from edgelora.v1.monitor_service_pb2 import BatteryState


def test_a_tenant_that_was_not_revoked_has_no_time_of_it():
    quotas = TenantQuotas(
        max_concurrent_requests=8,
        max_tokens_per_minute=60000,
        max_requests_per_minute=600,
        max_adapters=2000,
        max_adapter_bytes=2**32,
    )
    tenant = Tenant(tenant_id="office", quotas=quotas, role=ROLE_USER)
    tenant.created_at.FromSeconds(0)
    assert tenant_document(tenant) == {
        "tenant_id": "office",
        "role": "user",
        "max_concurrent_requests": 8,
        "max_tokens_per_minute": 60000,
        "max_requests_per_minute": 600,
        "max_adapters": 2000,
        "max_adapter_bytes": 2**32,
        "spiffe_id": None,
        "created_at": "1970-01-01T00:00:00Z",
        "revoked_at": None,
    }


def test_an_adapters_state_is_a_word():
    adapter = Adapter(digest="sha256:1", state=AdapterState.ADAPTER_STATE_RESIDENT)
    document = adapter_document(adapter)
    assert document["state"] == "resident"
    json.dumps(document)


def test_a_sensor_that_says_nothing_is_absent_in_json_and_unknown_in_text(capsys):
    response = GetStatusResponse(model="m", services=[ServiceStatus(name="monitor", is_ready=True)])
    response.device.memory_available_bytes = 2_000_000_000
    response.device.sampled_at.FromSeconds(0)
    response.device.battery.state = BatteryState.BATTERY_STATE_FULL
    response.device.cpu_stall = math.nan
    document = status_document(response)
    json.dumps(document)
    assert "temperature_celsius" not in document["device"]
    assert document["device"]["memory_available_bytes"] == 2_000_000_000
    assert document["device"]["sampled_at"] == "1970-01-01T00:00:00Z"
    assert document["device"]["battery"] == {"state": "BATTERY_STATE_FULL"}
    assert document["device"]["cpu_stall"] is None
    assert document["services"] == [{"name": "monitor", "is_ready": True}]
    _print(response)
    out = capsys.readouterr().out
    assert "temperature unknown, memory free 2.0 GB" in out


def test_the_back_end_is_shown_and_one_request_is_one(capsys):
    response = GetStatusResponse(backend="native", kv_cache_dtype="int8")
    response.usage.num_requests = 1
    response.usage.num_output_tokens = 2
    _print(response)
    out = capsys.readouterr().out
    assert "computes  native, KV cache in int8" in out
    assert "1 request, 0 prompt and 2 output tokens" in out


def test_without_a_monitor_the_device_is_unknown(capsys):
    _print(GetStatusResponse())
    assert "device    unknown" in capsys.readouterr().out
