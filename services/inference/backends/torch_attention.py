"""Attention of a ragged batch over a paged KV cache (block tables: arXiv 2309.06180)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from services.inference.backends.base import SequenceChunk

MAX_PADDING_TOKENS = 1024
"""Masked tokens a decode call may read to save another call; it costs about as much (measured)."""


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """Rows that are the only token of their chunk, attended to in one call."""

    rows: Tensor | None
    """int64 [count], or None where the step holds nothing else."""
    blocks: Tensor
    """int64 [count * blocks of the longest], short tables filled up with the blank block."""
    mask: Tensor
    """[count, 1, 1, tokens of the longest], 0 or -inf."""


@dataclass(frozen=True, slots=True)
class PrefillRows:
    """One chunk of several tokens."""

    start: int
    stop: int
    """Its rows in the step."""
    context: int
    """Tokens it may see: those cached before it, and its own."""
    blocks: Tensor | None
    """int64 [blocks], or None where nothing was cached before."""
    mask: Tensor | None
    """[rows, context], 0 or -inf, or None where nothing was cached before (plain causal)."""


@dataclass(frozen=True, slots=True)
class AttentionStep:
    """Where the rows of one step write their keys and values, and what they attend to."""

    cache_rows: Tensor
    """int64 [rows]: where each row's key and value go."""
    decode: tuple[DecodeRows, ...]
    prefill: tuple[PrefillRows, ...]


class PagedKvCache:
    """Keys and values of every layer in blocks, and the attention that reads them.

    A cache row holds all key heads, then all value heads of one token. One block more than asked
    for stays blank: short block tables are filled up with it.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Allocates the cache; sizes as in the model's configuration."""
        self._block_size = block_size
        self._blank_block = num_blocks
        self._num_heads = num_heads
        self._num_kv_heads = num_kv_heads
        self._head_dim = head_dim
        shape = (num_layers, (num_blocks + 1) * block_size, 2 * num_kv_heads, head_dim)
        self._rows = torch.zeros(shape, dtype=dtype, device=device)

    @property
    def num_bytes(self) -> int:
        """Memory reserved, in bytes."""
        return self._rows.numel() * self._rows.element_size()

    def plan(self, chunks: Sequence[SequenceChunk]) -> AttentionStep:
        """Works out a step whose rows are the tokens of `chunks` in order.

        Blanks every block that the step begins and does not fill: a former owner's leftovers
        could be infinite, and a mask does not hide infinity. Raises ValueError when a block does
        not exist.
        """
        size = self._block_size
        cache_rows: list[NDArray[np.int64]] = []
        unfilled: list[int] = []
        decode: list[tuple[int, SequenceChunk]] = []
        prefill: list[PrefillRows] = []
        row = 0
        for chunk in chunks:
            count, start = len(chunk.token_ids), chunk.start_position
            positions = np.arange(start, start + count)
            table = np.asarray(chunk.block_table, dtype=np.int64)
            if table.min() < 0 or table.max() >= self._blank_block:
                raise ValueError(f"a block table names blocks beyond 0 to {self._blank_block - 1}")
            cache_rows.append(table[positions // size] * size + positions % size)
            last = (start + count - 1) // size
            if start <= last * size and (start + count) % size:
                unfilled.append(int(table[last]))
            if count == 1:
                decode.append((row, chunk))
            else:
                prefill.append(self._plan_prefill(row, chunk))
            row += count
        if unfilled:
            self._blocks()[:, unfilled] = 0
        return AttentionStep(
            cache_rows=self._index(np.concatenate(cache_rows)),
            decode=tuple(self._plan_decode(group, row) for group in _by_length(decode)),
            prefill=tuple(prefill),
        )

    def _blocks(self) -> Tensor:
        return self._rows.view(self._rows.shape[0], self._blank_block + 1, -1)

    def _index(self, values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self._rows.device)

    def _plan_decode(self, decode: list[tuple[int, SequenceChunk]], num_rows: int) -> DecodeRows:
        size = self._block_size
        contexts = np.array([chunk.start_position + 1 for _, chunk in decode])
        longest = int(-(-contexts.max() // size))
        blocks = np.full((len(decode), longest), self._blank_block, dtype=np.int64)
        for entry, (_, chunk) in zip(blocks, decode, strict=True):
            used = -(-(chunk.start_position + 1) // size)
            entry[:used] = chunk.block_table[:used]
        visible = np.arange(longest * size) < contexts[:, None]
        mask = np.where(visible, np.float32(0), np.float32(-np.inf))
        return DecodeRows(
            rows=None if len(decode) == num_rows else self._index(np.array([r for r, _ in decode])),
            blocks=self._index(blocks.reshape(-1)),
            mask=self._mask(mask).view(len(decode), 1, 1, -1),
        )

    def _plan_prefill(self, row: int, chunk: SequenceChunk) -> PrefillRows:
        count, start = len(chunk.token_ids), chunk.start_position
        context = start + count
        if start == 0:
            return PrefillRows(row, row + count, context, None, None)
        used = -(-context // self._block_size)
        visible = np.arange(context) <= np.arange(start, context)[:, None]
        mask = np.where(visible, np.float32(0), np.float32(-np.inf))
        table = np.asarray(chunk.block_table[:used], dtype=np.int64)
        return PrefillRows(row, row + count, context, self._index(table), self._mask(mask))

    def _mask(self, mask: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(mask).to(self._rows.device, self._rows.dtype)

    def attend(self, layer: int, qkv: Tensor, step: AttentionStep) -> Tensor:
        """Stores the step's keys and values, then attends.

        `qkv`: [rows, heads + 2 * kv heads, head_dim], positions already embedded.
        Returns [rows, heads * head_dim].
        """
        cache = self._rows[layer]
        cache[step.cache_rows] = qkv[:, self._num_heads :]
        queries = qkv[:, : self._num_heads]
        result = queries.new_empty(queries.shape[0], self._num_heads * self._head_dim)
        for group in step.decode:
            if group.rows is None:
                return self._decode(cache, queries, group)
            result[group.rows] = self._decode(cache, queries[group.rows], group)
        for chunk in step.prefill:
            rows_of_chunk = slice(chunk.start, chunk.stop)
            result[rows_of_chunk] = self._prefill(cache, qkv[rows_of_chunk], chunk)
        return result

    def _gather(self, cache: Tensor, blocks: Tensor) -> Tensor:
        gathered = cache.view(self._blank_block + 1, -1).index_select(0, blocks)
        return gathered.view(-1, 2 * self._num_kv_heads, self._head_dim)

    def _decode(self, cache: Tensor, queries: Tensor, plan: DecodeRows) -> Tensor:
        count, kv_heads = queries.shape[0], self._num_kv_heads
        context = self._gather(cache, plan.blocks)
        context = context.view(count, -1, 2 * kv_heads, self._head_dim).transpose(1, 2)
        # The query heads that share a key head stand in the place of query positions.
        grouped = queries.reshape(count, kv_heads, -1, self._head_dim)
        result = scaled_dot_product_attention(
            grouped, context[:, :kv_heads], context[:, kv_heads:], attn_mask=plan.mask
        )
        return result.reshape(count, -1)

    def _prefill(self, cache: Tensor, qkv: Tensor, plan: PrefillRows) -> Tensor:
        kv_heads, count = self._num_kv_heads, qkv.shape[0]
        if plan.blocks is None:
            context = qkv[:, self._num_heads :]
        else:
            context = self._gather(cache, plan.blocks)[: plan.context]
        # Key heads stand in the place of the batch; the heads of a group share one without a copy.
        context = context.transpose(0, 1).unsqueeze(1)
        grouped = qkv[:, : self._num_heads].view(count, kv_heads, -1, self._head_dim)
        grouped = grouped.permute(1, 2, 0, 3)
        shape = (kv_heads, grouped.shape[1], plan.context, self._head_dim)
        result = scaled_dot_product_attention(
            grouped,
            context[:kv_heads].expand(shape),
            context[kv_heads:].expand(shape),
            attn_mask=plan.mask,
            is_causal=plan.mask is None,
        )
        return result.permute(2, 0, 1, 3).reshape(count, -1)


def _by_length(decode: list[tuple[int, SequenceChunk]]) -> list[list[tuple[int, SequenceChunk]]]:
    """Groups decode rows so that none is padded much beyond its own length."""
    groups: list[list[tuple[int, SequenceChunk]]] = []
    longest = 0
    ordered = sorted(decode, key=lambda entry: entry[1].start_position, reverse=True)
    for index, entry in enumerate(ordered):
        shorter_by = longest - entry[1].start_position
        if not groups or shorter_by * (len(ordered) - index) > MAX_PADDING_TOKENS:
            groups.append([])
            longest = entry[1].start_position
        groups[-1].append(entry)
    # Rows in their order: a group of all rows then needs no gathering.
    return [sorted(group, key=lambda entry: entry[0]) for group in groups]
