"""The certificate of an adapter: what was proven before anything could use it, and how."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

_HINTS: dict[type, dict[str, Any]] = {}
"""Types of the fields of a record, which take longer to find out than a document to read."""

VERSION = 1
"""Of the document's form and of what its numbers mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDelta:
    """How much one layer is changed."""

    layer: int
    norm: float
    """Frobenius norm of scaling x B x A over all adapted modules of the layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The encoded form, all of it compared with the original in float32."""

    codec: str
    version: int
    bits: float
    """Nominal bits a parameter of the level that was chosen."""
    bits_per_parameter: float
    """8 x encoded bytes / parameters, everything in the file counted."""
    num_bytes: int
    sha256: str
    """64 hex digits over the file, which is also its name."""
    relative_error: float
    """Frobenius norm of the change of all scaling x B x A, over the norm of themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How far the encoded adapter's next-token distributions are from the original's."""

    positions: int
    """Tokens of the texts after which both were compared."""
    mean_kl: float
    """Kullback-Leibler divergence of the encoded from the original distribution, in nats."""
    max_kl: float
    top1_agreement: float
    """Share of the positions with the same likeliest token, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetric:
    """The adapter's own probe: what is right of its answers, each token after those before it."""

    lines: int
    before: float
    """Share of the lines of which every token of the answer is the likeliest one, with the
    original adapter."""
    after: float
    """With the encoded adapter."""
    tokens_right: int
    """Tokens of the answers that are the likeliest ones, with the original adapter."""
    tokens_lost: int
    """Those of them that are not with the encoded adapter."""
    tokens_gained: int
    """Those that are with the encoded adapter alone."""
    divergence: Divergence
    """On the answers of the probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLogit:
    """One token after the canary prompt."""

    token_id: int
    logit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """What the model says next after the canary prompt, with the serving form at strength 1."""

    token_ids: tuple[int, ...]
    """The prompt."""
    largest: tuple[CanaryLogit, ...]
    """The reference: the largest logits, the largest first; none of an encoder, which has none."""
    largest_change: float
    """Largest absolute difference of a logit from the base model's; of an encoder, of a number of
    the text's vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a run of the model showed."""

    engine: str
    """What computed, for example `edgelora_native`."""
    original: str
    """What "original" means in every comparison."""
    probe: str
    """Name and version of the texts compared on."""
    divergence: Divergence | None
    """None when the serving form is the original."""
    task: TaskMetric | None
    """None when the adapter ships no probe, or the serving form is the original."""
    canary: Canary


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """All that is known of an adapter, in one immutable document."""

    version: int
    edgelora: str
    """Release that issued it."""
    adapter_digest: str
    base_digest: str
    sandbox: str
    """Level of the sandbox the adapter was read in; see sandbox.LEVELS."""
    tensors: int
    """Tensors in the file, every one of which is used."""
    parameters: int
    layer_deltas: tuple[LayerDelta, ...]
    """One for each adapted layer, the first layer first."""
    encoding: Encoding | None
    """None: the serving form is the original."""
    why_exact: str
    """Why the serving form is the original; empty when it is not."""
    measurement: Measurement | None
    """None: nothing was measured."""
    why_not_measured: str
    """Why nothing was measured; empty when it was."""

    def canonical_bytes(self) -> bytes:
        """The document: JSON with sorted keys, no spaces, ASCII; equal for equal certificates."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode("ascii")

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits over `canonical_bytes`."""
        return f"sha256:{hashlib.sha256(self.canonical_bytes()).hexdigest()}"

    @classmethod
    def from_bytes(cls, data: bytes) -> Certificate:
        """Reads `canonical_bytes`. Raises ValueError for anything but a whole certificate."""
        return read_record(cls, json.loads(data))


def read_record(record: type[T], document: Any) -> T:
    """Makes a dataclass of parsed JSON that has exactly its fields, of exactly their types.

    Raises ValueError; a float has to be finite.
    """
    hints = _hints(record)
    if not isinstance(document, dict) or document.keys() != hints.keys():
        raise ValueError(f"not the fields of a {record.__name__}")
    return record(**{name: _read(hint, document[name]) for name, hint in hints.items()})


def _hints(record: type) -> dict[str, Any]:
    if record not in _HINTS:
        hints = get_type_hints(record)
        _HINTS[record] = {field.name: hints[field.name] for field in fields(record)}
    return _HINTS[record]


def _read(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        if value is None:
            return None
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ValueError("not a list")
        return tuple(_read(get_args(hint)[0], each) for each in value)
    if is_dataclass(hint):
        return read_record(hint, value)  # type: ignore[arg-type]
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        raise ValueError(f"not a {hint.__name__}")
    return value
