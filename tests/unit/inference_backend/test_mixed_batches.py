"""What shares a batch, or a cache, with a row changes nothing in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.backend_streams import (
    Stream,
    decode,
    generate,
    give_blocks,
    prefill,
    random_tokens,
    use,
)
from tests.support.peft_adapters import peft_logits, save_tiny_decoder
from tests.unit.inference_backend.conftest import LIMITS, Tiny, load_backend

VOCAB = 256


def streams_of_every_kind(tiny: Tiny) -> list[Stream]:
    """One stream for each adapter and two of the base, with prompts of different lengths."""
    slots = [use(slot) for slot in range(len(tiny.adapters))]
    return [
        Stream(random_tokens(4 + 5 * index, VOCAB, seed=index), adapters)
        for index, adapters in enumerate([(), *slots, ()])
    ]


def test_mixed_batch_equals_solo_runs_token_for_token_Q07_Q12(tiny, backend):
    together = generate(backend, streams_of_every_kind(tiny), 40)
    for index, stream in enumerate(streams_of_every_kind(tiny)):
        assert generate(backend, [stream], 40)[0] == together[index], f"stream {index}"
    assert len({tuple(tokens) for tokens in together}) == len(together)


def test_base_rows_of_a_mixed_batch_keep_their_bits_Q12(tiny, backend):
    mixed = streams_of_every_kind(tiny)
    plain = [Stream(stream.prompt) for stream in streams_of_every_kind(tiny)]
    bare = load_backend(tiny.directory)
    for streams, on in ((mixed, backend), (plain, bare)):
        give_blocks(streams, 80)
        prefill(on, streams)
    for ours, theirs in zip(decode(backend, mixed, 10), decode(bare, plain, 10), strict=True):
        for index, stream in enumerate(mixed):
            is_equal = np.array_equal(ours[index], theirs[index])
            assert is_equal == (not stream.adapters), f"stream {index}"


def test_strength_zero_is_the_base_bit_for_bit_in_a_mixed_batch(tiny, backend):
    logits = []
    for adapters in (use(0, 0.0), ()):
        streams = streams_of_every_kind(tiny)
        streams[3].adapters = adapters
        give_blocks(streams, 80)
        prefill(backend, streams)
        logits.append(np.stack(list(decode(backend, streams, 8))))
    assert np.array_equal(logits[0], logits[1])


def test_a_zero_share_in_a_weighted_mix_is_no_adapter(tiny, backend):
    logits = []
    for adapters in ((*use(1, 0.0), *use(0, 0.7)), use(0, 0.7)):
        stream = Stream(random_tokens(30, VOCAB), adapters)
        give_blocks([stream], 64)
        prefill(backend, [stream])
        logits.append(np.stack(list(decode(backend, [stream], 8))))
    assert np.array_equal(logits[0], logits[1])


def test_decode_rows_run_beside_prefill_chunks_unchanged(tiny, backend):
    prompts = [random_tokens(12 + index, VOCAB, seed=index) for index in range(6)]
    solo = [generate(backend, [Stream(p, use(i))], 12)[0] for i, p in enumerate(prompts)]
    streams = [Stream(p, use(i)) for i, p in enumerate(prompts)]
    give_blocks(streams, 64)
    prefill(backend, streams[:3])
    for step in range(11):
        chunks, owners = [], []
        for stream in streams:
            if stream.output:
                chunks.append(stream.chunk(stream.last_token))
                owners.append(stream)
            elif step >= 2:
                tokens = stream.prompt[stream.cached :][:5]
                ends = stream.cached + len(tokens) == len(stream.prompt)
                chunks.append(stream.chunk(tokens, needs_logits=ends))
                owners += [stream] if ends else []
        for stream, row in zip(owners, backend.forward(chunks), strict=True):
            stream.output.append(int(row.argmax()))
    assert [stream.output for stream in streams[:3]] == solo[:3]
    for stream, expected in zip(streams[3:], solo[3:], strict=True):
        assert len(stream.output) > 4
        assert stream.output == expected[: len(stream.output)]


def test_alternating_adapters_leave_a_third_stream_alone_Q08(tiny, backend):
    shared = random_tokens(100, VOCAB)
    anchors = [Stream(random_tokens(60, VOCAB, seed=5), use(2)), Stream(random_tokens(50, VOCAB))]
    expected = [generate(backend, [Stream(a.prompt, a.adapters)], 30)[0] for a in anchors]
    for repetition in range(3):
        streams = [Stream(anchor.prompt, anchor.adapters) for anchor in anchors]
        visitor = Stream(shared)
        give_blocks([*streams, visitor], 112, seed=repetition)
        prefill(backend, streams)
        for step in range(29):
            # The visitor's blocks are taken over by the other adapter at every step.
            visitor.cached, visitor.adapters = 0, use(step % 2)
            chunks = [stream.chunk(stream.last_token) for stream in streams]
            logits = backend.forward([*chunks, visitor.chunk(shared)])
            for stream, row in zip(streams, logits, strict=False):
                stream.output.append(int(row.argmax()))
        assert [stream.output for stream in streams] == expected


def test_long_and_short_contexts_decode_together_unchanged(tmp_path):
    save_tiny_decoder(tmp_path, context=1024)
    backend = load_backend(tmp_path, replace(LIMITS, num_kv_blocks=400))
    lengths = (20, 900, 35, 500, 480, 21)
    prompts = [random_tokens(length, VOCAB, seed=length) for length in lengths]
    together = generate(backend, [Stream(prompt) for prompt in prompts], 21)
    for prompt, tokens in zip(prompts, together, strict=True):
        assert generate(backend, [Stream(prompt)], 21)[0] == tokens


@pytest.mark.parametrize("chunk_tokens", [1, 7, 16, 33])
@pytest.mark.parametrize("slot", [None, 6], ids=["base", "adapter"])
def test_chunked_prefill_equals_whole_prefill(chunk_tokens, slot, backend):
    logits, tokens = [], []
    for size in (None, chunk_tokens):
        stream = Stream(random_tokens(75, VOCAB), () if slot is None else use(slot))
        give_blocks([stream], 96)
        prefill(backend, [stream], size)
        logits.append(np.stack(list(decode(backend, [stream], 12))))
        tokens.append(stream.output)
    assert tokens[0] == tokens[1]
    assert np.abs(logits[0] - logits[1]).max() < 1e-4


@pytest.mark.parametrize("length", [63, 64, 65, 127])
def test_prompts_around_half_the_context_and_at_its_end_Z05(length, tiny, backend):
    assert tiny.model.max_context_tokens == 128
    prompt = random_tokens(length, VOCAB)
    for kind in (None, "plain"):
        stream = Stream(prompt, () if kind is None else use(tiny.slot(kind)))
        give_blocks([stream], 128)
        prefill(backend, [stream])
        (logits,) = decode(backend, [stream], 1)
        seen = np.concatenate((prompt, np.array(stream.output[:1], dtype=np.int32)))
        expected = peft_logits(tiny.directory, kind and tiny.adapters[kind], seen)[-1]
        assert np.abs(logits[0] - expected).max() < 1e-4


def test_the_number_of_threads_may_change_between_steps_and_the_tokens_do_not(tiny, backend):
    streams = streams_of_every_kind(tiny)
    expected = generate(backend, streams, 20)
    changed = load_backend(tiny.directory)
    for kind in tiny.adapters:
        changed.load_adapter(tiny.slot(kind), tiny.weights(kind))
    for count in (2, 1):
        changed.set_num_threads(count)
        assert torch.get_num_threads() == changed.num_threads == count
        assert generate(changed, streams_of_every_kind(tiny), 20) == expected
