"""What the store knows of an adapter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterManifest:
    """One adapter of one tenant."""

    tenant_id: str
    digest: str
    """`sha256:` and 64 hex digits over the canonical config and the weights."""
    base_digest: str
    """The base model it was verified against."""
    rank: int
    """Largest rank of any module."""
    alpha: float
    target_modules: tuple[str, ...]
    """Sorted module names."""
    num_parameters: int
    config_blob: str
    """Name of the blob with the canonical config."""
    weights_blob: str
    config_bytes: int
    weights_bytes: int
    registered_at_s: float
    """Unix time."""
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A tenant's name for one of its adapters."""

    name: str
    digest: str
    generation: int
    """1 at first, one more with each replacement."""
