"""What the store knows of an adapter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Task(Enum):
    """What an adapter's base model does."""

    GENERATE = "generate"
    ENCODE = "encode"
    """Classify or embed text."""


class ServingForm(Enum):
    """How an adapter is stored and loaded. Chosen at registration, the same for all tenants."""

    EXACT = "exact"
    """The original weights."""
    ENCODED_3 = "encoded-3"
    """About 3.2 bits a parameter."""
    ENCODED_4 = "encoded-4"
    """About 4.5 bits."""
    ENCODED_8 = "encoded-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One file on flash."""

    name: str
    """Hex SHA-256 of its bytes."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContent:
    """What is true of an adapter's content, whoever registered it."""

    digest: str
    """`sha256:` and 64 hex digits over the canonical config, the original weights and, where it
    has one, its canonical head.json."""
    base_digest: str
    """The base model it was verified against."""
    rank: int
    """Largest rank of any module."""
    alpha: float
    target_modules: tuple[str, ...]
    """Sorted module names."""
    num_parameters: int
    weights_bytes: int
    """Size of the original weights file."""
    form: ServingForm
    config: Blob | None
    """The canonical config; with `weights`, in the exact form only."""
    weights: Blob | None
    encoded: Blob | None
    certificate_digest: str | None
    """`sha256:` and 64 hex digits; None for one registered before there were certificates."""
    is_on_flash: bool
    """False when its files were evicted and have to come from a package again."""
    task: Task = Task.GENERATE
    head: Blob | None = None
    """The canonical head.json, where it has one; in the exact form only."""
    num_labels: int = 0
    """Of a classifier; 0 for what is none."""
    knows_out_of_scope: bool = False
    """Whether the classifier can say that a text belongs to none of its labels."""

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Every file of the form."""
        files = (self.config, self.weights, self.encoded, self.head)
        return tuple(blob for blob in files if blob is not None)

    @property
    def flash_bytes(self) -> int:
        """What the form takes on flash."""
        return sum(blob.size_bytes for blob in self.blobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterManifest:
    """One adapter of one tenant."""

    tenant_id: str
    content: AdapterContent
    registered_at_s: float
    """Unix time."""
    description: str
    package: str | None
    """`REMOTE/NAME@sha256:...`; None when the tenant sent it, so that flash holds the only copy."""
    parent_digest: str | None
    """What its alias pointed to when it was registered."""
    is_pinned: bool
    version_of_digest: str | None = None
    """The tenant's adapter that this one is a lower-rank version of."""
    granted_by: str | None = None
    """The tenant that owns it, where the operator granted it to `tenant_id`."""

    @property
    def owner_id(self) -> str:
        """Whose adapter it is: `tenant_id` but for a granted one."""
        return self.granted_by or self.tenant_id

    @property
    def digest(self) -> str:
        """The adapter's identity."""
        return self.content.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An adapter that the router may choose for its tenant."""

    digest: str
    alias: str | None
    """Its first one by name."""
    lowest_rank: int
    """It can be served with: its own, or that of a lower-rank version."""
    description: str
    example_prompts: tuple[str, ...]
    """Of its card; empty when it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A tenant's name for one of its adapters."""

    name: str
    digest: str
    generation: int
    """Grows by one with each replacement. Starts at 1, or after the highest that any alias the
    tenant removed had, so that a name never has one twice."""
