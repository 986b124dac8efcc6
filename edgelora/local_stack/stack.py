"""Composes a local stack: lock, secrets, Redis, the services, and how all of it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgelora.local_stack import redis_server
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.home_lock import home_lock
from edgelora.local_stack.layout import ENCODER, SERVICES, StackLayout
from edgelora.local_stack.ports import (
    ANY_HOST,
    DEFAULT_DASHBOARD_PORT,
    DEFAULT_HTTP_PORT,
    HOST,
    choose_metrics_ports,
    choose_port,
)
from edgelora.local_stack.processes import kill_leftovers
from edgelora.local_stack.redis_binary import find_redis_binary
from edgelora.local_stack.redis_rights import USER
from edgelora.local_stack.secrets import ensure_secret
from edgelora.local_stack.state_file import StackState, load_state
from edgelora.local_stack.supervisor import ServiceSpec, Supervisor
from edgelora.local_stack.wiring import Wiring, process_environment, service_environments
from services.chassis.healthcheck import GATEWAY_SERVICE, is_serving

REDIS = "redis"
_MODULES = {ENCODER: "services.inference.encoder"}
"""What is not run as services.NAME."""
_PROBE_TIMEOUT_S = 2.0
_ROUTER_FILE = "EDGELORA_SCHEDULER_ROUTER_FILE"
_TLS_FILE = "EDGELORA_GATEWAY_TLS_CERT_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What the user chose."""

    model: str | None
    """Name of a prepared decoder of the home; None: nothing generates."""
    encoder: str | None = None
    """Name of a prepared encoder of the home; None: nothing classifies and embeds. There is one of
    the two."""
    port: int | None = None
    """The gateway's TCP port; 0 any free one, None the default one or any free one."""
    host: str = HOST
    """Address that tenants reach the node under; 0.0.0.0 for all of the machine. Beyond this
    machine the gateway must speak TLS. The dashboard stays on this machine."""
    http_port: int | None = None
    """The same for HTTP."""
    dashboard_port: int | None = None
    """The same for the dashboard."""
    redis_url: str | None = None
    """An existing Redis instead of one of our own: `redis://user@host:port/0`, no password."""
    redis_password_file: Path | None = None
    """Holds the password for `redis_url`."""
    has_metrics: bool = False
    """Whether every service shows its metrics, on a port of its own."""
    ready_limit_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """A stack that answers."""

    layout: StackLayout
    state: StackState


@contextmanager
def owned_home(layout: StackLayout) -> Iterator[None]:
    """Takes the home for this launcher, clears what a killed one left, and leaves no trace."""
    layout.make_home()
    with home_lock(layout):
        try:
            _clear(layout)
            layout.make_run_dir()
            yield
        finally:
            layout.state_file.unlink(missing_ok=True)
            with suppress(StackError):
                layout.remove_run_dir()


def _clear(layout: StackLayout) -> None:
    """Removes what is there of a launcher that could not clean up."""
    with suppress(StackError):  # a damaged file is removed all the same
        stale = load_state(layout.state_file)
        if stale is not None and Path(stale.run_dir).name.startswith("edgelora-"):
            left = replace(layout, run_dir=Path(stale.run_dir))
            kill_leftovers(left.pids)
            left.remove_run_dir()
    kill_leftovers(layout.pids)
    layout.state_file.unlink(missing_ok=True)


@asynccontextmanager
async def running_stack(
    layout: StackLayout,
    options: StackOptions,
    environ: Mapping[str, str],
    supervisor: Supervisor,
) -> AsyncIterator[RunningStack]:
    """Starts Redis and the services of an owned home and yields once all of them are ready.

    However the block ends, every process has ended when it returns. Raises StackError when the
    stack cannot start.
    """
    is_tls = bool(environ.get(_TLS_FILE))
    if options.host != HOST and not is_tls:
        raise StackError(
            f"--host opens the node to a network, where keys need TLS: set {_TLS_FILE} and "
            "EDGELORA_GATEWAY_TLS_KEY_FILE, see docs/tenants.md"
        )
    port = choose_port(options.port)
    http_port = choose_port(options.http_port, DEFAULT_HTTP_PORT, "--http-port")
    dashboard_port = choose_port(options.dashboard_port, DEFAULT_DASHBOARD_PORT, "--dashboard-port")
    reached = HOST if options.host == ANY_HOST else options.host
    state = StackState(
        launcher_pid=os.getpid(),
        run_dir=str(layout.run_dir),
        gateway_address=f"{reached}:{port}",
        http_address=f"{reached}:{http_port}",
        dashboard_address=f"{HOST}:{dashboard_port}",
        admin_address=f"unix:{layout.socket('admin')}",
        model=options.model or "",
        encoder=options.encoder or "",
        is_ready=False,
        is_tls=is_tls,
        metrics_addresses=_metrics_addresses(options),
    )
    state.save(layout.state_file)
    try:
        for spec in _specs(layout, options, state, environ):
            supervisor.start(spec)
        await supervisor.wait_ready(options.ready_limit_s)
        state = replace(state, is_ready=True)
        state.save(layout.state_file)
        yield RunningStack(layout=layout, state=state)
    finally:
        await supervisor.stop()


def _specs(
    layout: StackLayout, options: StackOptions, state: StackState, environ: Mapping[str, str]
) -> Iterator[ServiceSpec]:
    seal_key_file = layout.secrets / "seal.key"
    ensure_secret(seal_key_file)
    ensure_secret(layout.operator_key_file)
    redis_url, password_file = options.redis_url, options.redis_password_file
    if redis_url is None:
        socket = layout.socket(REDIS)
        redis_url, password_file = f"unix://{USER}@{socket}", layout.secrets / "redis.password"
        yield _redis_spec(layout.run_dir, socket, ensure_secret(password_file), environ)
    services = _services(options)
    addresses = {name: layout.address(name) for name in services}
    addresses["gateway"] = _listening(state.gateway_address, options)
    environments = service_environments(
        Wiring(
            addresses=addresses,
            http_address=_listening(state.http_address, options),
            dashboard_address=state.dashboard_address,
            admin_address=state.admin_address,
            seal_key_file=seal_key_file,
            operator_key_file=layout.operator_key_file,
            redis_url=redis_url,
            redis_password_file=password_file,
            model_dir=_model_dir(layout, options.model),
            encoder_dir=_model_dir(layout, options.encoder),
            store_dir=layout.home / "adapters",
            remotes_file=_remotes_file(layout, environ),
            router_file=None if _ROUTER_FILE in environ else layout.router_file,
            gateway_dir=layout.home / "gateway",
            pids_dir=layout.pids,
            metrics_addresses=state.metrics_addresses,
        )
    )
    for name in services:
        yield ServiceSpec(
            name=name,
            argv=[sys.executable, "-I", "-m", _MODULES.get(name, f"services.{name}")],
            environ=process_environment(name, environments[name], environ),
            # The gateway's own door may speak TLS.
            probe=partial(is_serving, state.admin_address, _PROBE_TIMEOUT_S, GATEWAY_SERVICE)
            if name == "gateway"
            else partial(is_serving, addresses[name], _PROBE_TIMEOUT_S),
            sockets=[layout.socket("admin" if name == "gateway" else name)],
        )


def _metrics_addresses(options: StackOptions) -> dict[str, str]:
    # The port of a service does not depend on which others there are.
    ports = choose_metrics_ports((*SERVICES, ENCODER)) if options.has_metrics else {}
    return {service: f"{HOST}:{ports[service]}" for service in _services(options) if ports}


def _services(options: StackOptions) -> list[str]:
    """In the order in which they start."""
    workers = [
        *(["inference"] if options.model is not None else []),
        *([ENCODER] if options.encoder is not None else []),
    ]
    index = SERVICES.index("inference")
    return [*SERVICES[:index], *workers, *SERVICES[index + 1 :]]


def _model_dir(layout: StackLayout, name: str | None) -> Path | None:
    return None if name is None else layout.home / "models" / name


def _listening(address: str, options: StackOptions) -> str:
    """Where to listen for what is reached at an address."""
    return f"{options.host}:{address.rpartition(':')[2]}"


def _remotes_file(layout: StackLayout, environ: Mapping[str, str]) -> Path | None:
    """The home's own, unless the operator's settings name another."""
    is_used = "EDGELORA_STORE_REMOTES_FILE" not in environ and layout.remotes_file.is_file()
    return layout.remotes_file if is_used else None


def _redis_spec(
    directory: Path, socket: Path, password: str, environ: Mapping[str, str]
) -> ServiceSpec:
    config = redis_server.write_config(directory, socket, password)
    return ServiceSpec(
        name=REDIS,
        argv=[str(find_redis_binary().path), str(config)],
        environ={"PATH": environ.get("PATH", os.defpath)},
        probe=partial(redis_server.answers, socket, password),
        sockets=[socket],
    )
