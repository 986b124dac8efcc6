"""The torch back end beside transformers + PEFT on SmolLM2-135M-Instruct, in float32.

Tolerance on logits: 1e-3 absolute. They span about 30 here, and 30 layers of another order of
sums move them by 1e-4; a wrong scaling moves them by more than 0.1.
"""

from __future__ import annotations

import numpy as np
import pytest

from services.inference.backends.base import SlotWeight
from tests.integration.parity.conftest import Real
from tests.support.backend_streams import (
    Stream,
    decode,
    generate,
    give_blocks,
    prefill,
    random_tokens,
    use,
)
from tests.support.peft_adapters import KINDS, merged_logits, read

TOLERANCE = 1e-3
pytestmark = pytest.mark.integration


def last_logits(real: Real, stream: Stream) -> np.ndarray:
    """Logits of prefill (chunked) and of one decode step: after the last two tokens."""
    give_blocks([stream], len(stream.prompt))
    rows = []
    for tokens in (stream.prompt[:20], stream.prompt[20:-1], stream.prompt[-1:]):
        rows.append(real.backend.forward([stream.chunk(tokens)])[0])
    return np.stack(rows[1:])


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_logits_equal_peft_A01(kind: str | None, real: Real):
    prompt = random_tokens(48, real.model.vocab_size)
    expected = real.reference.logits(kind, prompt)[-2:]
    actual = last_logits(real, Stream(prompt, () if kind is None else use(real.slot(kind))))
    assert np.abs(actual - expected).max() < TOLERANCE
    if kind is not None:
        base = real.reference.logits(None, prompt)[-2:]
        assert np.abs(expected - base).max() > 100 * TOLERANCE


def test_two_weighted_adapters_equal_the_sum_of_their_updates(real: Real):
    shares = {"plain": 0.4, "rank and alpha patterns": 1.5}
    prompt = random_tokens(48, real.model.vocab_size)
    parts = [(read(real.adapters[kind], real.model), share) for kind, share in shares.items()]
    expected = merged_logits(real.directory, parts, prompt)[-2:]
    adapters = tuple(SlotWeight(real.slot(kind), share) for kind, share in shares.items())
    assert np.abs(last_logits(real, Stream(prompt, adapters)) - expected).max() < TOLERANCE


def ten_streams(real: Real) -> list[Stream]:
    """Eight streams with different adapters and two of the base."""
    slots = [(), *(use(slot) for slot in range(8)), ()]
    return [
        Stream(random_tokens(12 + 4 * index, real.model.vocab_size, seed=index), adapters)
        for index, adapters in enumerate(slots)
    ]


def test_mixed_batch_equals_solo_runs_token_for_token_Q07_Q12(real: Real):
    together = generate(real.backend, ten_streams(real), 32)
    for index, stream in enumerate(ten_streams(real)):
        assert generate(real.backend, [stream], 32)[0] == together[index], f"stream {index}"
    assert len({tuple(tokens) for tokens in together}) == len(together)


def test_strength_zero_and_the_base_are_equal_bit_for_bit_in_a_mixed_batch(real: Real):
    logits = []
    for adapters in (use(3, 0.0), ()):
        streams = ten_streams(real)
        streams[4].adapters = adapters
        give_blocks(streams, 64)
        prefill(real.backend, streams)
        logits.append(np.stack(list(decode(real.backend, streams, 3))))
    assert np.array_equal(logits[0], logits[1])


def test_the_weights_keep_the_digests_they_were_prepared_with_A13_I7(real: Real):
    generate(real.backend, ten_streams(real)[:3], 4)
    for name in real.model.files:
        real.model.verify_file(real.directory, name)
