"""The native back end beside transformers + PEFT on SmolLM2-135M-Instruct and real text.

The weights are the same numbers (a Q4_1 source is packed exactly). What differs: activations in
8 bits for every product, keys and values in half precision, adapter factors in 8 bits. The torch
back end equals PEFT within 1e-3 (test_real_model.py), so these bounds hold against it too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tokenizers import Tokenizer

from services.inference.backends.base import BackendLimits
from services.inference.backends.native_backend import NativeBackend
from tests.integration.parity.conftest import Real
from tests.support.backend_streams import BLOCK_SIZE, Stream, give_blocks, use
from tests.support.peft_adapters import KINDS, read

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(NativeBackend.probe() is not None, reason=str(NativeBackend.probe())),
]

TEXTS = (
    "<|im_start|>user\nWrite a short e-mail to my landlord: the heating does not work.<|im_end|>\n"
    "<|im_start|>assistant\nDear Mr. Brown, I am writing to tell you that the heating in my flat",
    "The river rises in the hills north of the town and flows south through farmland for about "
    "forty miles before it reaches the sea. In summer it is so low that children can wade across.",
)
MAX_MEAN_KL = 0.006
"""Nats over all tokens of the texts; measured 0.0031 to 0.0040."""
MAX_KL = 0.05
"""Of any token; measured up to 0.024."""
MIN_TOP_1 = 0.88
"""Share of tokens with the same likeliest next one; measured 0.913 to 0.975 of 80
tokens: the others are near-ties."""


@pytest.fixture(scope="module")
def native(real: Real) -> Iterator[NativeBackend]:
    backend = NativeBackend(num_threads=2)
    limits = BackendLimits(
        num_kv_blocks=16, block_size=BLOCK_SIZE, max_loras=len(real.adapters), max_lora_rank=64
    )
    backend.load_model(real.directory, limits)
    for slot, path in enumerate(real.adapters.values()):
        backend.load_adapter(slot, read(path, real.model))
    yield backend


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_next_token_distributions_are_those_of_peft(
    kind: str | None, real: Real, native: NativeBackend
):
    tokenizer = Tokenizer.from_file(str(real.directory / "tokenizer.json"))
    divergences, agreements = [], []
    for text in TEXTS:
        tokens = np.array(tokenizer.encode(text).ids, dtype=np.int32)
        stream = Stream(tokens, () if kind is None else use(real.slot(kind)))
        give_blocks([stream], len(tokens))
        rows = [native.forward([stream.chunk(tokens[i : i + 1])])[0] for i in range(len(tokens))]
        ours = log_softmax(np.stack(rows))
        theirs = log_softmax(real.reference.logits(kind, tokens))
        divergences.append((np.exp(theirs) * (theirs - ours)).sum(axis=1))
        agreements.append(ours.argmax(axis=1) == theirs.argmax(axis=1))
    divergence, agreement = np.concatenate(divergences), np.concatenate(agreements)
    assert divergence.mean() < MAX_MEAN_KL
    assert divergence.max() < MAX_KL
    assert agreement.mean() >= MIN_TOP_1
