"""What the remote tier did since the store started."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.adapter_store.remotes.failures import FailureKind


@dataclass(slots=True, kw_only=True)
class RemoteCounters:
    """Plain numbers for metrics; only ever grow."""

    num_packages: int = 0
    """Packages handed over whole."""
    num_attempts: int = 0
    """Tries to read a manifest or a layer from a remote."""
    num_resumes: int = 0
    """Tries that went on from bytes an earlier one had left."""
    num_joins: int = 0
    """Times somebody waited for a transfer that was already running."""
    num_negative_hits: int = 0
    """Answers from memory, without asking the remote, that a package is not to be had now."""
    bytes_moved: int = 0
    """Received into the quarantine, bytes thrown away later included."""
    resolve_s: float = 0.0
    """Spent reading manifests."""
    transfer_s: float = 0.0
    """Spent receiving layers, pauses between tries included."""
    slot_wait_s: float = 0.0
    """Spent waiting behind other downloads of the same tenant."""
    num_failures: dict[FailureKind, int] = field(
        default_factory=lambda: dict.fromkeys(FailureKind, 0)
    )
    """Failed tries by kind."""
