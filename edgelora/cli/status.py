"""`edgelora status`: the node at a glance."""

from __future__ import annotations

from typing import Any

import click

from edgelora.cli.device_view import leak_lines, pressure_lines
from edgelora.cli.messages import status_document
from edgelora.cli.node_call import call_node
from edgelora.cli.output import counted, output_console, print_json, printable
from edgelora.cli.places import connection_options, json_option
from edgelora.cli.tier_view import tier_lines
from edgelora.v1.gateway_service_pb2 import GetStatusResponse, TenantUsage
from edgelora.v1.generation_pb2 import PriorityClass


@click.command()
@connection_options
@json_option
def status(as_json: bool, **where: Any) -> int:
    """Show services, queues, device and the tenant's own usage; exit 1 unless all is ready.

    \b
    Examples:
      edgelora status --tenant office
      edgelora status --tenant office --json
    """
    response = call_node(where, lambda client: client.status())
    is_ready = all(service.is_ready for service in response.services)
    if as_json:
        print_json(status_document(response))
    else:
        _print(response)
    return 0 if is_ready else 1


def _print(response: GetStatusResponse) -> None:
    console = output_console()
    if response.model:
        console.print(f"model     {response.model}, context {response.max_context_tokens} tokens")
    if response.encoder:
        console.print(f"encoder   {response.encoder}")
    if response.backend:
        console.print(f"computes  {response.backend}, KV cache in {response.kv_cache_dtype}")
    for service in response.services:
        state = "ready" if service.is_ready else "NOT READY"
        console.print(f"service   {service.name:14} {state}")
    for queue in response.queues:
        name = PriorityClass.Name(queue.priority).removeprefix("PRIORITY_CLASS_").lower()
        console.print(
            f"queue     {name:14} {queue.num_running} running, {queue.num_waiting} waiting"
        )
    if response.HasField("tiers"):
        for line in tier_lines(response.tiers):
            console.print(line)
    console.print(f"device    {_device(response)}")
    for line in leak_lines(response.device):
        console.print(line)
    if response.HasField("pressure"):
        for line in pressure_lines(response.pressure):
            console.print(line)
    for restriction in response.restrictions:
        console.print(f"limited   {printable(restriction.explanation)}")
    usage = response.usage
    console.print(
        f"usage     {usage.tenant_id}: {counted(usage.num_requests, 'request')}, "
        f"{usage.num_prompt_tokens} prompt and {counted(usage.num_output_tokens, 'output token')}, "
        f"{usage.num_running} of {usage.max_concurrent_requests} running, "
        f"{usage.engine_time.ToMilliseconds() / 1000:.1f} s of the engine{_energy(usage)}"
    )


def _energy(usage: TenantUsage) -> str:
    return f", about {usage.energy_joules:.0f} J" if usage.HasField("energy_joules") else ""


def _device(response: GetStatusResponse) -> str:
    """One line; what no sensor tells is called unknown."""
    if not response.HasField("device"):
        return "unknown"
    device = response.device

    def value(name: str, form: str, scale: float = 1.0) -> str:
        return form.format(getattr(device, name) * scale) if device.HasField(name) else "unknown"

    return (
        f"processor {value('cpu_utilisation', '{:.0f} %', 100)}, "
        f"temperature {value('temperature_celsius', '{:.0f} °C')}, "
        f"memory free {value('memory_available_bytes', '{:.1f} GB', 1e-9)}"
    )
