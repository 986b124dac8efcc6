"""Drives a back end the way the engine does: prompts in, chunks and decode steps, tokens out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.inference.backends.base import Backend, SequenceChunk, SlotWeight

BLOCK_SIZE = 16


@dataclass
class Stream:
    """One sequence: its prompt, who adapts it, and the blocks it owns."""

    prompt: NDArray[np.int32]
    adapters: tuple[SlotWeight, ...] = ()
    blocks: tuple[int, ...] = ()
    cached: int = 0
    output: list[int] = field(default_factory=list)

    @property
    def last_token(self) -> NDArray[np.int32]:
        """The token that the next decode step runs."""
        return np.array(self.output[-1:], dtype=np.int32)

    def chunk(self, token_ids: NDArray[np.int32], *, needs_logits: bool = True) -> SequenceChunk:
        """The next tokens of this sequence as a chunk; they count as cached from here on."""
        start = self.cached
        self.cached += len(token_ids)
        return SequenceChunk(
            token_ids=token_ids,
            start_position=start,
            block_table=self.blocks,
            adapters=self.adapters,
            needs_logits=needs_logits,
        )


def use(slot: int, weight: float = 1.0) -> tuple[SlotWeight, ...]:
    """One adapter."""
    return (SlotWeight(slot, weight),)


def give_blocks(streams: Sequence[Stream], tokens_each: int, *, seed: int = 0) -> None:
    """Gives every stream blocks for `tokens_each` tokens, scattered over the cache."""
    each = -(-tokens_each // BLOCK_SIZE)
    blocks = np.random.default_rng(seed).permutation(each * len(streams)).tolist()
    for index, stream in enumerate(streams):
        stream.blocks = tuple(blocks[index * each : (index + 1) * each])


def prefill(backend: Backend, streams: Sequence[Stream], chunk_tokens: int | None = None) -> None:
    """Runs all prompts together, in chunks of `chunk_tokens`, and picks each first token."""
    while waiting := [stream for stream in streams if stream.cached < len(stream.prompt)]:
        ends = []
        chunks = []
        for stream in waiting:
            tokens = stream.prompt[stream.cached :][:chunk_tokens]
            ends.append(stream.cached + len(tokens) == len(stream.prompt))
            chunks.append(stream.chunk(tokens, needs_logits=ends[-1]))
        logits = backend.forward(chunks)
        finished = [stream for stream, is_end in zip(waiting, ends, strict=True) if is_end]
        for stream, row in zip(finished, logits, strict=True):
            stream.output.append(int(row.argmax()))


def decode(backend: Backend, streams: Sequence[Stream], steps: int) -> Iterator[NDArray]:
    """Decodes greedily; yields the logits of every step, [streams, vocabulary]."""
    for _ in range(steps):
        logits = backend.forward([stream.chunk(stream.last_token) for stream in streams])
        for stream, row in zip(streams, logits, strict=True):
            stream.output.append(int(row.argmax()))
        yield logits


def generate(backend: Backend, streams: Sequence[Stream], new_tokens: int) -> list[list[int]]:
    """Prefills and decodes all streams in one batch; returns `new_tokens` tokens of each."""
    give_blocks(streams, max(len(stream.prompt) for stream in streams) + new_tokens)
    prefill(backend, streams)
    for _ in decode(backend, streams, new_tokens - 1):
        pass
    return [stream.output for stream in streams]


def random_tokens(count: int, vocab_size: int, seed: int = 0) -> NDArray[np.int32]:
    """A random prompt, the same for the same seed."""
    return np.random.default_rng(seed).integers(3, vocab_size, count, dtype=np.int32)
