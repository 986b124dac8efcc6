"""What the store tells its child processes, and what they answer: JSON over pipes."""

from __future__ import annotations

from dataclasses import dataclass

from services.adapter_store.verification.certificate import Encoding, LayerDelta, Measurement
from services.adapter_store.verification.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A linear module of every layer that may be adapted."""

    name: str
    out_features: int
    in_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A base model, as far as adapters have to fit it."""

    digest: str
    modules: tuple[Module, ...]
    num_layers: int
    hidden_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A text as the base model's tokenizer cuts it."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What the child needs to run the model."""

    packed_fd: int
    """The packed base model, open."""
    tokenizer_file: str
    vocab_size: int
    max_sequence_tokens: int
    canary: Tokens
    texts: tuple[Tokens, ...]
    """The built-in texts."""
    is_encoding: bool
    max_mean_kl: float
    """Bound on the mean divergence of an encoded form, in nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderMeasuring:
    """What the child needs to run the encoder."""

    packed_fd: int
    """The packed encoder, open."""
    canary: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownForm:
    """The encoded form an adapter was found to have before."""

    bits: float
    """Nominal bits a parameter of its level."""
    sha256: str
    """64 hex digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOrders:
    """One adapter to be read."""

    config_fd: int
    weights_fd: int
    probe_fd: int | None
    head_fd: int | None
    candidate_fd: int | None
    """What somebody says is its encoded form."""
    known: KnownForm | None
    """If encoding makes these very bytes, that is the answer."""
    decoder: Base | None
    encoder: Base | None
    max_rank: int
    memory_bytes: int
    """What it may take beside what is mapped when it begins to read."""
    cpu_s: int
    minimum_sandbox: str
    measuring: Measuring | None
    """With the decoder."""
    encoder_measuring: EncoderMeasuring | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """A good adapter. If it has an encoding, that many bytes follow."""

    task: str
    """Of the base model it fits: `generate` or `encode`."""
    canonical_config: str
    canonical_head: str | None
    """None when it has no head.json."""
    num_labels: int
    """Of its classifier; 0 when it has none."""
    weights_sha256: str
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    parameters: int
    tensors: int
    layer_deltas: tuple[LayerDelta, ...]
    encoding: Encoding | None
    why_exact: str
    measurement: Measurement | None
    sandbox: Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an adapter is not taken."""

    is_incompatible: bool
    """It belongs to another base model."""
    message: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationAnswer:
    """Findings or a refusal; neither when the known form was made, whose bytes follow."""

    findings: Findings | None
    refusal: Refusal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOrders:
    """A base model to be tried for measuring."""

    packed_fd: int | None
    packed_sha256: str
    """64 hex digits."""
    tokenizer_file: str
    hidden_size: int
    num_layers: int
    vocab_size: int
    max_sequence_tokens: int
    max_rank: int
    base_digest: str
    is_encoding: bool
    max_mean_kl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSetupOrders:
    """An encoder to be tried for measuring."""

    packed_fd: int | None
    packed_sha256: str
    """64 hex digits."""
    tokenizer_file: str
    hidden_size: int
    num_layers: int
    vocab_size: int
    max_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrders:
    """What the store's start finds out: about the sandbox, and the base models that are served."""

    decoder: SetupOrders | None
    encoder: EncoderSetupOrders | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupAnswer:
    """What a child of this store will have."""

    sandbox: Sandbox
    measuring: Measuring | None
    obstacle: str
    """Why nothing can be measured; empty when it can."""
    encoder_measuring: EncoderMeasuring | None
    encoder_obstacle: str
    """The same of the encoder."""
