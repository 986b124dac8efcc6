"""The process that opens an uploaded adapter first: `python -I -m` this module, nothing else.

It gets the files as open descriptors and its orders on standard input, maps the base model, gives
up every right it does not need, and only then looks at what a stranger wrote. If that manages to
crash it or to use up its limits, it is refused and nothing else has seen it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from typing import NoReturn

from edgelora.adapter_format import (
    MAX_CONFIG_BYTES,
    combine_digest,
    read_adapter,
)
from edgelora.error_tree import AdapterIncompatibleError, AdapterRejectedError
from services.adapter_store.verification import sandbox
from services.adapter_store.verification.certificate import LayerDelta
from services.adapter_store.verification.child_protocol import answer_and_exit, read_orders
from services.adapter_store.verification.delta_norms import layer_norms
from services.adapter_store.verification.orders import (
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
            self._choice = FormChoice(
                orders.measuring,
                base_digest=orders.base_digest,
                max_rank=orders.max_rank,
                has_probe=orders.probe_fd is not None,
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
        config, weights = read_adapter(
            os.pread(orders.config_fd, MAX_CONFIG_BYTES + 1, 0),
            self._weights,
            targets={each.name: (each.out_features, each.in_features) for each in orders.modules},
            num_layers=orders.num_layers,
            max_rank=orders.max_rank,
        )
        probe: tuple[tuple[str, str], ...] = ()
        if orders.probe_fd is not None:
            probe = read_probe(os.pread(orders.probe_fd, MAX_PROBE_BYTES + 1, 0))
        canonical = config.canonical_bytes()
        sha256 = hashlib.sha256(self._weights)
        form = None
        if self._choice is not None:
            digest = combine_digest(canonical, sha256.digest())
            if orders.known is not None:
                data = self._choice.encode_known(weights, digest, orders.known)
                if data is not None:
                    return VerificationAnswer(findings=None, refusal=None), data
            form = self._choice.choose(weights, digest, probe, self._candidate)
        encoded = None if form is None else form.encoded
        findings = Findings(
            canonical_config=canonical.decode("ascii"),
            weights_sha256=sha256.hexdigest(),
            rank=weights.max_rank,
            alpha=config.alpha,
            target_modules=tuple(sorted({module for _, module in weights.pairs})),
            parameters=num_parameters(weights),
            # Reading ends well only when every tensor was used, and a pair is two of them.
            tensors=2 * len(weights.pairs),
            layer_deltas=tuple(
                LayerDelta(layer=layer, norm=norm) for layer, norm in layer_norms(weights).items()
            ),
            encoding=None if encoded is None else encoded.encoding,
            why_exact="" if form is None else form.why_exact,
            measurement=None if form is None else form.measurement,
            sandbox=box,
        )
        answer = VerificationAnswer(findings=findings, refusal=None)
        return answer, b"" if encoded is None else encoded.data


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
