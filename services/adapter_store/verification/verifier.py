"""Has uploaded files read by a process of their own before anything else opens them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from edgelora.adapter_format import MAX_CONFIG_BYTES, HeadSettings, combine_digest, parse_head
from edgelora.adapter_format.head import MAX_LABELS, MIN_LABELS
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from services.adapter_store.bases import ServedBases
from services.adapter_store.names import MAX_DESCRIPTION_CHARS
from services.adapter_store.registry.manifest import Task
from services.adapter_store.verification import certificate as certificates
from services.adapter_store.verification import sandbox
from services.adapter_store.verification.certificate import Certificate, read_record
from services.adapter_store.verification.child_process import (
    ChildFailedError,
    Payload,
    StoredPayload,
    run_child,
)
from services.adapter_store.verification.child_protocol import encode
from services.adapter_store.verification.orders import (
    Base,
    EncoderMeasuring,
    Findings,
    KnownForm,
    Measuring,
    Module,
    Refusal,
    VerificationAnswer,
    VerificationOrders,
)
from services.chassis.base_model import BaseModel
from services.chassis.logs import get_logger

CHILD_MODULE = "services.adapter_store.verification.child"
_BASE_MEMORY_BYTES = 1 << 30
_MEMORY_FACTOR = 16
"""Float32 copies of a half-precision file, of what it is encoded to, and temporaries."""
_MAX_ENCODED_FACTOR = 2
"""An encoded adapter has 8 bits a parameter, the original 16 or 32, and both small headers."""
_SPARE_ENCODED_BYTES = 1 << 20
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")

_WHY_EXACT_ENCODER = "adapters of an encoder are kept exact"
_PROVEN_BY_WORKER = "its worker proves the effect when it loads the adapter"

_Files = tuple[Path, Path, Path | None, Path | None, Path | None]
"""Config, weights, probe, head, candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBlob:
    """The encoded form of an adapter, written and synced."""

    name: str
    """64 hex digits: the SHA-256 of its bytes."""
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAdapter:
    """What the verification process found in a good adapter."""

    task: Task
    canonical_config: bytes
    canonical_head: bytes | None
    """None when it has no head.json."""
    head: HeadSettings | None
    """None when it is no classifier."""
    weights_sha256: bytes
    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    num_parameters: int
    certificate: Certificate
    encoded: EncodedBlob | None
    """The serving form; None when it is the original."""

    @property
    def digest(self) -> str:
        """The adapter's identity."""
        return combine_digest(self.canonical_config, self.weights_sha256, self.canonical_head)


class Verifier:
    """Runs verification processes, a bounded number at once."""

    def __init__(
        self,
        bases: ServedBases,
        *,
        max_rank: int,
        timeout_s: float,
        max_concurrent: int,
        minimum_sandbox: str = "rlimits",
        measuring: Measuring | None = None,
        why_not_measured: str = "",
        encoder_measuring: EncoderMeasuring | None = None,
        why_encoder_not_measured: str = "",
    ) -> None:
        """`minimum_sandbox`: one of sandbox.LEVELS; a process that reaches less reads nothing.

        Without `measuring` every serving form is the original, and certificates say why.
        """
        self._bases = bases
        self._max_rank = max_rank
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(max_concurrent)
        self._minimum_sandbox = minimum_sandbox
        self._measuring = measuring
        self._why_not_measured = why_not_measured
        self._encoder_measuring = encoder_measuring
        self._why_encoder_not_measured = f"{why_encoder_not_measured}: {_PROVEN_BY_WORKER}"
        self._release = version("edgelora")

    @property
    def is_encoding(self) -> bool:
        """Whether serving forms can be encoded ones."""
        return self._measuring is not None and self._measuring.is_encoding

    async def verify(
        self,
        config: Path,
        weights: Path,
        probe: Path | None,
        blob_target: Path,
        *,
        head: Path | None = None,
        candidate: Path | None = None,
    ) -> VerifiedAdapter:
        """Verifies files of ours against the base model they are for.

        `head` is its head.json, if it has one, and `probe` its own probe.jsonl; `blob_target` is
        made when the serving form is an encoded one, and left behind only then; `candidate`, not
        empty, may be that form, and is ignored when it is no good one. Raises AdapterRejectedError,
        AdapterIncompatibleError or ResourcePressureError; a process that crashed, hung or answered
        nonsense means rejected.
        """
        verified = await self._verify((config, weights, probe, head, candidate), blob_target, None)
        assert isinstance(verified, VerifiedAdapter)
        return verified

    async def verify_again(
        self,
        config: Path,
        weights: Path,
        probe: Path | None,
        blob_target: Path,
        known: KnownForm,
    ) -> VerifiedAdapter | EncodedBlob:
        """Makes the form that an adapter is known to have, and no more when these are its bytes.

        Otherwise everything is verified as if for the first time. Raises as `verify`.
        """
        return await self._verify((config, weights, probe, None, None), blob_target, known)

    async def _verify(
        self, files: _Files, blob_target: Path, known: KnownForm | None
    ) -> VerifiedAdapter | EncodedBlob:
        async with self._places:
            try:
                answer, stored = await self._run(files, blob_target, known)
                return self._checked(answer, stored, blob_target, known)
            except ChildFailedError as error:
                get_logger().warning("verification_process_failed", exit_code=error.exit_code)
                _discard(blob_target)
                raise AdapterRejectedError(
                    f"the adapter can not be verified: {error}", field="weights"
                ) from None
            except BaseException:
                _discard(blob_target)
                raise

    async def _run(
        self, files: _Files, blob_target: Path, known: KnownForm | None
    ) -> tuple[bytes, StoredPayload | None]:
        with ExitStack() as stack:
            config_fd, weights_fd, probe_fd, head_fd, candidate_fd = (
                None if path is None else _open(path, stack) for path in files
            )
            assert config_fd is not None
            assert weights_fd is not None
            weights_bytes = os.fstat(weights_fd).st_size
            orders = VerificationOrders(
                config_fd=config_fd,
                weights_fd=weights_fd,
                probe_fd=probe_fd,
                head_fd=head_fd,
                candidate_fd=candidate_fd,
                known=known,
                decoder=_base(self._bases.decoder),
                encoder=_base(self._bases.encoder),
                max_rank=self._max_rank,
                memory_bytes=_BASE_MEMORY_BYTES + _MEMORY_FACTOR * weights_bytes,
                cpu_s=math.ceil(self._timeout_s),
                minimum_sandbox=self._minimum_sandbox,
                measuring=self._measuring,
                encoder_measuring=self._encoder_measuring,
            )
            base_fds = (
                each.packed_fd
                for each in (self._measuring, self._encoder_measuring)
                if each is not None
            )
            return await run_child(
                CHILD_MODULE,
                encode(orders),
                descriptors=[
                    each
                    for each in (config_fd, weights_fd, probe_fd, head_fd, candidate_fd, *base_fds)
                    if each is not None
                ],
                timeout_s=self._timeout_s,
                payload=Payload(
                    path=blob_target,
                    max_bytes=_MAX_ENCODED_FACTOR * weights_bytes + _SPARE_ENCODED_BYTES,
                ),
            )

    def _checked(
        self,
        text: bytes,
        stored: StoredPayload | None,
        blob_target: Path,
        known: KnownForm | None,
    ) -> VerifiedAdapter | EncodedBlob:
        """Takes nothing from the child for granted but the form of its answer."""
        try:
            answer = read_record(VerificationAnswer, json.loads(text))
            if answer.refusal is not None:
                raise _refusal(answer.refusal)
            encoded = None if stored is None else _blob(stored, blob_target)
            if answer.findings is not None:
                return self._verified(answer.findings, encoded)
            if encoded is None or known is None or encoded.name != known.sha256:
                raise ValueError
            return encoded
        except (ValueError, RecursionError):
            raise ChildFailedError("the verification process gave no answer") from None

    def _verified(self, found: Findings, encoded: EncodedBlob | None) -> VerifiedAdapter:
        """Raises ValueError for findings that contradict each other."""
        config = found.canonical_config.encode("ascii")
        task = Task(found.task)
        base = self._bases.of(task)
        canonical_head = None if found.canonical_head is None else found.canonical_head.encode()
        encoding = found.encoding
        told = None if encoding is None else (encoding.num_bytes, encoding.sha256)
        is_measured = found.measurement is not None
        measuring = self._measuring if task is Task.GENERATE else self._encoder_measuring
        if (
            base is None
            or not _HEX_SHA256.fullmatch(found.weights_sha256)
            or len(config) > MAX_CONFIG_BYTES
            or found.sandbox.level not in sandbox.LEVELS
            or not sandbox.reaches(found.sandbox.level, self._minimum_sandbox)
            or told != (None if encoded is None else (encoded.size_bytes, encoded.name))
            or is_measured != (measuring is not None)
            or (encoding is not None and not is_measured)
        ):
            raise ValueError
        weights_sha256 = bytes.fromhex(found.weights_sha256)
        why_not_measured = self._why_not_measured
        why_exact = found.why_exact if is_measured else why_not_measured
        if task is Task.ENCODE:
            why_exact = _WHY_EXACT_ENCODER
            why_not_measured = self._why_encoder_not_measured
        return VerifiedAdapter(
            task=task,
            canonical_config=config,
            canonical_head=canonical_head,
            head=_head(canonical_head, found.num_labels, task),
            weights_sha256=weights_sha256,
            rank=found.rank,
            alpha=found.alpha,
            target_modules=found.target_modules,
            num_parameters=found.parameters,
            certificate=Certificate(
                version=certificates.VERSION,
                edgelora=self._release,
                adapter_digest=combine_digest(config, weights_sha256, canonical_head),
                base_digest=base.digest,
                sandbox=found.sandbox.level,
                tensors=found.tensors,
                parameters=found.parameters,
                layer_deltas=found.layer_deltas,
                encoding=encoding,
                why_exact=why_exact,
                measurement=found.measurement,
                why_not_measured="" if is_measured else why_not_measured,
            ),
            encoded=encoded,
        )


def _base(model: BaseModel | None) -> Base | None:
    if model is None:
        return None
    return Base(
        digest=model.digest,
        modules=tuple(
            Module(name=name, out_features=out_features, in_features=in_features)
            for name, (out_features, in_features) in model.targets.items()
        ),
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
    )


def _head(canonical: bytes | None, num_labels: int, task: Task) -> HeadSettings | None:
    """What a classifier says of itself. Raises ValueError for what no good child answers."""
    if task is not Task.ENCODE and (canonical is not None or num_labels):
        raise ValueError
    if num_labels == 0 and canonical is None:
        return None
    try:
        settings = HeadSettings.unnamed(num_labels) if canonical is None else parse_head(canonical)
    except AdapterRejectedError:
        raise ValueError from None
    if len(settings.labels) != num_labels or not MIN_LABELS <= num_labels <= MAX_LABELS:
        raise ValueError
    return settings


def _blob(stored: StoredPayload, path: Path) -> EncodedBlob:
    return EncodedBlob(name=stored.sha256, path=path, size_bytes=stored.size_bytes)


def _open(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _discard(blob_target: Path) -> None:
    with suppress(OSError):
        blob_target.unlink()


def _refusal(refusal: Refusal) -> AdapterRejectedError | AdapterIncompatibleError:
    error_class = AdapterIncompatibleError if refusal.is_incompatible else AdapterRejectedError
    return error_class(
        refusal.message[: 4 * MAX_DESCRIPTION_CHARS], field=refusal.field[:MAX_DESCRIPTION_CHARS]
    )
