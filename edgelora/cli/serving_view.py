"""What `edgelora up` says once the stack serves: where it is, and how to talk to it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from edgelora.cli.demo_run import StreamResult
from edgelora.cli.demo_view import results_document
from edgelora.cli.places import DEFAULT_HOME
from edgelora.local_stack.stack import RunningStack

_QUESTION = "Invite Ann to lunch."


def show_serving(stack: RunningStack, results: Sequence[StreamResult], console: Console) -> None:
    """Shows the addresses, and commands to paste; `results` tells which tenants there are."""
    console.print()
    for name, place, remark in _places(stack):
        console.print(f"{name:10} {place:36} {remark}".rstrip(), soft_wrap=True)
    command = _own_command(stack.layout.home)
    console.print()
    if results:
        tenant, model = results[0].tenant, results[0].adapter
        console.print(
            "Talk to it from another terminal:\n\n"
            f"  {command('chat')} --tenant {tenant} --adapter {model}\n",
            soft_wrap=True,
        )
    else:
        tenant, model = "NAME", stack.state.model or stack.state.encoder
        console.print(
            f"Make a tenant from another terminal:\n\n  {command('tenants add')} {tenant}\n",
            soft_wrap=True,
        )
    console.print(f"  {_curl(stack, tenant, model)}\n", soft_wrap=True)
    console.print("Ctrl-C stops everything.")


def serving_document(stack: RunningStack, results: Sequence[StreamResult]) -> dict[str, object]:
    """The same for `--json`."""
    state = stack.state
    http_url = f"{state.http_scheme}://{state.http_address}"
    return {
        "model": state.model or None,
        "encoder": state.encoder or None,
        "gateway_address": state.gateway_address,
        "http_address": state.http_address,
        "openai_base_url": f"{http_url}/v1",
        "ollama_host": http_url,
        "dashboard_address": state.dashboard_address,
        "dashboard_url": f"{state.http_scheme}://{state.dashboard_address}",
        "admin_address": state.admin_address,
        "metrics_addresses": state.metrics_addresses,
        "home": str(stack.layout.home),
        "streams": results_document(results),
    }


def _places(stack: RunningStack) -> Iterator[tuple[str, str, str]]:
    """What there is, where, and a remark."""
    state = stack.state
    http_url = f"{state.http_scheme}://{state.http_address}"
    keys = _short(stack.layout.keys)
    yield "OpenAI", f"{http_url}/v1", f"base URL; the API key of a tenant is in {keys}/"
    yield "Ollama", http_url, "host or URL; the same API keys"
    yield "gRPC", state.gateway_address, "edgelora.v1.GatewayService"
    operator_key = _short(stack.layout.operator_key_file)
    dashboard_url = f"{state.http_scheme}://{state.dashboard_address}"
    yield "dashboard", dashboard_url, f"opened by the key in {operator_key}"
    for service, address in state.metrics_addresses.items():
        yield "metrics", f"http://{address}/metrics", service
    yield "admin", state.admin_address, ""
    yield "logs", str(stack.layout.logs), ""


def _curl(stack: RunningStack, tenant: str, model: str) -> str:
    """A request over HTTP for a shell; the key stays in its file."""
    state = stack.state
    key_file = shlex.quote(_short(stack.layout.keys / f"{tenant}.key"))
    if state.model:
        path = "chat/completions"
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": _QUESTION}]})
    else:
        path, body = "embeddings", json.dumps({"model": model, "input": _QUESTION})
    return (
        f"curl {state.http_scheme}://{state.http_address}/v1/{path} "
        f'-H "Authorization: Bearer $(cat {key_file})" '
        f"-d {shlex.quote(body)}"
    )


def _own_command(home: Path) -> Callable[[str], str]:
    """Returns how to call this very command for another purpose, ready to be pasted."""
    program = Path(sys.argv[0])
    is_on_path = shutil.which("edgelora") == str(program.resolve())
    name = "edgelora" if is_on_path or program.name != "edgelora" else _short(program)
    where = "" if home == DEFAULT_HOME.resolve() else f" --home {shlex.quote(_short(home))}"
    return lambda command: f"{name} {command}{where}"


def _short(path: Path) -> str:
    """The path from the current directory when it lies below it."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a virtual environment's link must stay
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
