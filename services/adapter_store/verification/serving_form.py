"""Opens what measuring an adapter needs, and chooses its serving form with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from edgelora.adapter_format import AdapterWeights, LoraPair
from edgelora.adapter_format.tensor_file import Buffer
from edgelora.error_tree import DataCorruptError
from services.adapter_store.verification.certificate import Encoding
from services.adapter_store.verification.delta_norms import relative_error
from services.adapter_store.verification.measured_model import MeasuredModel
from services.adapter_store.verification.measuring import ChosenForm, Comparison, EncodedForm
from services.adapter_store.verification.orders import KnownForm, Measuring
from services.adapter_store.verification.probe_texts import GIVEN_TOKENS
from services.adapter_store.verification.probes import (
    MAX_LINE_TOKENS,
    Tokenize,
    TokenSequence,
    built_in_sequences,
    probe_sequences,
)

CODEC = "edgelora"
_FEATURE_MULTIPLE = 32
"""The codec's blocks."""
MAX_CANDIDATE_ERROR = 0.3
"""Relative error of all products that a form made elsewhere may have: a few texts do not tell it
from another adapter. The codec leaves at most 0.25, except of a few thousand parameters."""


class FormChoice:
    """The base model, the tokenizer when there is a probe, and the codec when it is on."""

    def __init__(
        self, orders: Measuring, *, base_digest: str, max_rank: int, has_probe: bool
    ) -> None:
        """Opens files and imports packages: nothing later does.

        Raises edgelora_native.NativeError and OSError.
        """
        self._orders = orders
        self._base_digest = base_digest
        self._model = MeasuredModel(
            Path(f"/proc/self/fd/{orders.packed_fd}"),
            vocab_size=orders.vocab_size,
            max_rank=max_rank,
        )
        self._tokenize = load_tokenizer(orders.tokenizer_file) if has_probe else None
        if orders.is_encoding:
            from edgelora.adapter_format import codec

            self._codec = codec
            self._rehearse()

    def _rehearse(self) -> None:
        """Encodes the smallest adapter: numpy imports some of its parts at their first use."""
        ones = np.ones((1, _FEATURE_MULTIPLE), np.float32)
        smallest = AdapterWeights({(0, "q_proj"): LoraPair(ones, ones.T, 1.0)})
        for _ in self._forms(smallest, self._base_digest):
            break

    def choose(
        self,
        weights: AdapterWeights,
        digest: str,
        probe: Iterable[tuple[str, str]],
        candidate: Buffer | None,
    ) -> ChosenForm:
        """Measures an adapter. Raises AdapterRejectedError.

        `candidate`: what somebody says is its encoded form. It is taken within the same bounds,
        and makes no difference otherwise.
        """
        orders = self._orders
        sequences: tuple[TokenSequence, ...] = ()
        if self._tokenize is not None:
            sequences = probe_sequences(
                probe, self._tokenize, min(MAX_LINE_TOKENS, orders.max_sequence_tokens)
            )
        comparison = Comparison(
            self._model,
            weights,
            canary=orders.canary.ids,
            texts=built_in_sequences((text.ids for text in orders.texts), GIVEN_TOKENS),
            probe=sequences,
        )
        if not orders.is_encoding:
            return comparison.keep_original("the codec is off")
        if not _is_encodable(weights):
            return comparison.keep_original("the codec takes modules of multiples of 32 only")
        if candidate is not None:
            given = self._given_form(candidate, weights, digest)
            chosen = None if given is None else comparison.attempt(given, orders.max_mean_kl)
            if chosen is not None:
                return chosen
        return comparison.choose(self._forms(weights, digest), orders.max_mean_kl)

    def encode_known(self, weights: AdapterWeights, digest: str, known: KnownForm) -> bytes | None:
        """Encodes an adapter as it was before; None when that makes other bytes."""
        if not self._orders.is_encoding or not _is_encodable(weights):
            return None
        data = self._encode(weights, digest, known.bits)
        return data if hashlib.sha256(data).hexdigest() == known.sha256 else None

    def _forms(self, weights: AdapterWeights, digest: str) -> Iterator[EncodedForm]:
        for level in self._codec.LEVELS:
            data = self._encode(weights, digest, level)
            yield self._form(weights, level, data, self._codec.decode(data))

    def _encode(self, weights: AdapterWeights, digest: str, level: float) -> bytes:
        return self._codec.encode(
            weights, digest=digest, base_digest=self._base_digest, level=level
        )

    def _given_form(
        self, candidate: Buffer, weights: AdapterWeights, digest: str
    ) -> EncodedForm | None:
        """A form made elsewhere, as hostile as any file; None when it is not one of the adapter."""
        data = bytes(candidate)
        try:
            header = self._codec.read_encoded_header(data)
            said = header.digest, header.base_digest, header.num_parameters, header.original_rank
            if said != (digest, self._base_digest, num_parameters(weights), weights.max_rank):
                return None
            decoded = self._codec.decode(data)
        except (DataCorruptError, MemoryError):
            return None
        if not _is_within(decoded, weights):
            return None
        form = self._form(weights, header.level, data, decoded)
        return form if form.encoding.relative_error <= MAX_CANDIDATE_ERROR else None

    def _form(
        self, weights: AdapterWeights, level: float, data: bytes, decoded: AdapterWeights
    ) -> EncodedForm:
        return EncodedForm(
            encoding=Encoding(
                codec=CODEC,
                version=self._codec.VERSION,
                bits=level,
                bits_per_parameter=8 * len(data) / num_parameters(weights),
                num_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                relative_error=relative_error(weights, decoded),
            ),
            data=data,
        )


def _is_encodable(weights: AdapterWeights) -> bool:
    return not any(
        size % _FEATURE_MULTIPLE
        for pair in weights.pairs.values()
        for size in (pair.lora_a.shape[1], pair.lora_b.shape[0])
    )


def _is_within(decoded: AdapterWeights, weights: AdapterWeights) -> bool:
    """Whether a decoded form has modules of the adapter only, in their sizes."""
    for key, pair in decoded.pairs.items():
        own = weights.pairs.get(key)
        if own is None or len(pair.lora_a) > len(own.lora_a):
            return False
        if (pair.lora_a.shape[1], len(pair.lora_b)) != (own.lora_a.shape[1], len(own.lora_b)):
            return False
    return True


def num_parameters(weights: AdapterWeights) -> int:
    """Values in all factors."""
    return sum(int(pair.lora_a.size + pair.lora_b.size) for pair in weights.pairs.values())


def load_tokenizer(file: str) -> Tokenize:
    """The base model's tokenizer for raw text, in which control tokens may be spelled out.

    Adds no start token. Raises ImportError, and Exception when the file is damaged.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return tokenize
