"""`stack.json` in the home: where the running stack is reached. It is there only while it runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from edgelora.local_stack.errors import StackError


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """What the other commands need to know of a running stack."""

    launcher_pid: int
    run_dir: str
    gateway_address: str
    """For tenants, `host:port`."""
    http_address: str
    """For tenants over HTTP, `host:port`."""
    dashboard_address: str
    """For the operator's browser, `host:port`."""
    admin_address: str
    """For the operator, a unix socket."""
    model: str
    """The decoder; empty where there is none."""
    is_ready: bool
    encoder: str = ""
    """The encoder; empty where there is none."""
    is_tls: bool = False
    """Whether the gateway's doors speak TLS."""
    metrics_addresses: dict[str, str] = field(default_factory=dict)
    """Service -> where a Prometheus may read it, `host:port`; empty where nobody asked for it."""

    @property
    def http_scheme(self) -> str:
        """How a URL of the HTTP addresses starts."""
        return "https" if self.is_tls else "http"

    def save(self, path: Path) -> None:
        """Writes the file at once."""
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        partial.chmod(0o600)
        partial.rename(path)

    def is_alive(self) -> bool:
        """Whether its launcher runs; one that was killed outright leaves the file behind."""
        return psutil.pid_exists(self.launcher_pid)


def load_state(path: Path) -> StackState | None:
    """Reads the file; None when no stack has written one.

    Raises StackError when something else did.
    """
    try:
        return StackState(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise StackError(f"{path} is damaged: remove it and start the stack again") from error
