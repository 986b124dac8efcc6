"""The process that opens an uploaded adapter first: `python -I -m` this module, nothing else.

It gets the files as open descriptors and its orders on standard input, maps the base model, gives
up every right it does not need, and only then looks at what a stranger wrote. If that manages to
crash it or to use up its limits, it is refused and nothing else has seen it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from edgelora.adapter_format import (
    MAX_CONFIG_BYTES,
    MAX_HEAD_BYTES,
    AdapterConfig,
    AdapterWeights,
    combine_digest,
    read_adapter,
    read_encoder_adapter,
    recognise,
)
from edgelora.adapter_format.architecture import DECODER, ENCODER
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.error_tree import AdapterIncompatibleError, AdapterRejectedError
from services.adapter_store.registry.manifest import Task
from services.adapter_store.verification import sandbox
from services.adapter_store.verification.certificate import LayerDelta
from services.adapter_store.verification.child_protocol import answer_and_exit, read_orders
from services.adapter_store.verification.delta_norms import layer_norms
from services.adapter_store.verification.measured_encoder import MeasuredEncoder
from services.adapter_store.verification.orders import (
    Base,
    Findings,
    Refusal,
    VerificationAnswer,
    VerificationOrders,
)
from services.adapter_store.verification.probes import MAX_PROBE_BYTES, read_probe
from services.adapter_store.verification.serving_form import FormChoice, num_parameters

_NICENESS = 5
EXIT_TOO_WEAK = 4
"""Status when the sandbox does not reach the minimum; then nothing was read."""


class Verification:
    """One adapter being read."""

    def __init__(self, orders: VerificationOrders) -> None:
        """Opens everything that is ours."""
        self._orders = orders
        # Mapped, but not yet looked at: mapping needs a free descriptor.
        self._weights = mmap.mmap(orders.weights_fd, 0, access=mmap.ACCESS_READ)
        self._candidate: mmap.mmap | None = None
        if orders.candidate_fd is not None:
            self._candidate = mmap.mmap(orders.candidate_fd, 0, access=mmap.ACCESS_READ)
        self._choice: FormChoice | None = None
        if orders.measuring is not None:
            assert orders.decoder is not None
            self._choice = FormChoice(
                orders.measuring,
                base_digest=orders.decoder.digest,
                max_rank=orders.max_rank,
                has_probe=orders.probe_fd is not None,
            )

        self._encoder: MeasuredEncoder | None = None
        if orders.encoder_measuring is not None:
            self._encoder = MeasuredEncoder(
                Path(f"/proc/self/fd/{orders.encoder_measuring.packed_fd}"),
                orders.encoder_measuring.canary.ids,
                max_rank=orders.max_rank,
            )

    def run(self, box: sandbox.Sandbox) -> tuple[VerificationAnswer, bytes]:
        """Reads all files in full and describes them, or says why they are refused."""
        try:
            return self._read(box)
        except AdapterRejectedError as error:
            return _refused(error.message, error.field), b""
        except AdapterIncompatibleError as error:
            return _refused(error.message, error.field, is_incompatible=True), b""
        except MemoryError:
            message = "the adapter needs more memory to be read than its size allows"
            return _refused(message, "weights"), b""

    def _read(self, box: sandbox.Sandbox) -> tuple[VerificationAnswer, bytes]:
        orders = self._orders
        config = os.pread(orders.config_fd, MAX_CONFIG_BYTES + 1, 0)
        head = None
        if orders.head_fd is not None:
            head = os.pread(orders.head_fd, MAX_HEAD_BYTES + 1, 0)
        architecture = recognise(config, self._weights)
        if architecture is None:
            architecture = DECODER if orders.decoder is not None else ENCODER
        if architecture is ENCODER:
            if orders.encoder is None:
                raise _not_served("an encoder", "with `edgelora up --encoder`")
            return self._read_encoder(config, head, orders.encoder, box), b""
        if orders.decoder is None:
            raise _not_served("a decoder", "without `--no-decoder`")
        if head is not None:
            raise AdapterRejectedError(
                "head.json is for a classifier, which an encoder's adapter has: remove it",
                field="head",
            )
        return self._read_decoder(config, orders.decoder, box)

    def _read_encoder(
        self, config: bytes, head: bytes | None, base: Base, box: sandbox.Sandbox
    ) -> VerificationAnswer:
        adapter = read_encoder_adapter(
            config,
            self._weights,
            head,
            targets=_targets(base),
            num_layers=base.num_layers,
            hidden_size=base.hidden_size,
            max_rank=self._orders.max_rank,
        )
        self._probe()
        findings = _findings(adapter.config, adapter.weights, self._weights, box)
        settings = adapter.head_settings
        findings = replace(
            findings,
            task=Task.ENCODE.value,
            canonical_head=None if settings is None else settings.canonical_bytes().decode(),
            num_labels=0 if adapter.head is None else len(adapter.head.labels),
            tensors=adapter.num_tensors,
            measurement=None
            if self._encoder is None
            else self._encoder.measure(adapter.weights, adapter.head),
        )
        return VerificationAnswer(findings=findings, refusal=None)

    def _read_decoder(
        self, config: bytes, base: Base, box: sandbox.Sandbox
    ) -> tuple[VerificationAnswer, bytes]:
        orders = self._orders
        parsed, weights = read_adapter(
            config,
            self._weights,
            targets=_targets(base),
            num_layers=base.num_layers,
            max_rank=orders.max_rank,
        )
        probe = self._probe()
        findings = _findings(parsed, weights, self._weights, box)
        if self._choice is None:
            return VerificationAnswer(findings=findings, refusal=None), b""
        digest = combine_digest(parsed.canonical_bytes(), bytes.fromhex(findings.weights_sha256))
        if orders.known is not None:
            data = self._choice.encode_known(weights, digest, orders.known)
            if data is not None:
                return VerificationAnswer(findings=None, refusal=None), data
        form = self._choice.choose(weights, digest, probe, self._candidate)
        findings = replace(
            findings,
            encoding=None if form.encoded is None else form.encoded.encoding,
            why_exact=form.why_exact,
            measurement=form.measurement,
        )
        answer = VerificationAnswer(findings=findings, refusal=None)
        return answer, b"" if form.encoded is None else form.encoded.data

    def _probe(self) -> tuple[tuple[str, str], ...]:
        """The adapter's own probe, empty when it ships none."""
        probe_fd = self._orders.probe_fd
        return () if probe_fd is None else read_probe(os.pread(probe_fd, MAX_PROBE_BYTES + 1, 0))


def _findings(
    config: AdapterConfig, weights: AdapterWeights, file: Buffer, box: sandbox.Sandbox
) -> Findings:
    """What is found of every adapter, as if it were a decoder's that is not measured."""
    return Findings(
        task=Task.GENERATE.value,
        canonical_config=config.canonical_bytes().decode("ascii"),
        canonical_head=None,
        num_labels=0,
        weights_sha256=hashlib.sha256(file).hexdigest(),
        rank=weights.max_rank,
        alpha=config.alpha,
        target_modules=tuple(sorted({module for _, module in weights.pairs})),
        parameters=num_parameters(weights),
        # Reading ends well only when every tensor was used, and a pair is two of them.
        tensors=2 * len(weights.pairs),
        layer_deltas=tuple(
            LayerDelta(layer=layer, norm=norm) for layer, norm in layer_norms(weights).items()
        ),
        encoding=None,
        why_exact="",
        measurement=None,
        sandbox=box,
    )


def _targets(base: Base) -> dict[str, tuple[int, int]]:
    return {each.name: (each.out_features, each.in_features) for each in base.modules}


def _not_served(base: str, remedy: str) -> AdapterIncompatibleError:
    return AdapterIncompatibleError(
        f"this is an adapter of {base}, and this node serves none: start it {remedy}",
        field="weights",
    )


def _refused(
    message: str, field: str | None, *, is_incompatible: bool = False
) -> VerificationAnswer:
    refusal = Refusal(is_incompatible=is_incompatible, message=message, field=field or "weights")
    return VerificationAnswer(findings=None, refusal=refusal)


def main() -> NoReturn:
    """Follows the orders on standard input."""
    orders = read_orders(VerificationOrders)
    # Whoever is being served goes first.
    os.nice(_NICENESS)
    verification = Verification(orders)
    box = sandbox.enter(orders.memory_bytes, orders.cpu_s)
    if not sandbox.reaches(box.level, orders.minimum_sandbox):
        os._exit(EXIT_TOO_WEAK)
    answer_and_exit(*verification.run(box))


if __name__ == "__main__":
    main()
