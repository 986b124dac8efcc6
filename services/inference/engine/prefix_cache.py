"""Finds the KV blocks that a sequence's first tokens already have, and offers its own.

A block's key is a SHA-256 over all its keys and values depend on and who may see them: tenant,
base model, adapters with their serving forms and strengths, every token before it and its own. A
match is therefore the same tenant's own work, and the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from array import array

from services.inference.engine.kv_blocks import KvBlockPool, Origin
from services.inference.engine.sequence import AdapterUse, Sequence


def root_key(
    tenant_id: str, base_digest: str, adapters: tuple[AdapterUse, ...], forms: tuple[str, ...]
) -> bytes:
    """What the keys of a sequence's blocks start from. JSON tells every field from the next.

    An adapter of strength 0 takes no part.
    """
    uses = [
        [use.digest, form, use.weight]
        for use, form in zip(adapters, forms, strict=True)
        if use.weight
    ]
    return hashlib.sha256(json.dumps([tenant_id, base_digest, uses]).encode()).digest()


class PrefixCache:
    """Shares full blocks between the sequences of one tenant. A sequence without one shares none.

    The caller holds the adapters of a sequence before it asks, so a hit passes by no check.
    """

    def __init__(self, blocks: KvBlockPool, base_digest: str, *, is_enabled: bool = True) -> None:
        self._blocks = blocks
        self._base_digest = base_digest
        self._is_enabled = is_enabled
        self.num_lookup_tokens = 0
        """Prompt tokens of sequences that got their blocks."""
        self.num_hit_tokens = 0
        """Those of them that were found."""

    def take(self, sequence: Sequence) -> list[int]:
        """Takes hold of the blocks of the longest known prefix, before the sequence has its own.

        It ends before the newest token, which has to run for its logits.
        """
        return self._blocks.share(self._keys(sequence, self._num_findable(sequence)))

    def begin(self, sequence: Sequence, shared: list[int]) -> None:
        """Lets a sequence start behind the blocks that `take` found."""
        if not sequence.num_preemptions:
            sequence.num_cached_prompt_tokens = 0
            if self._is_sharing(sequence):
                self.num_lookup_tokens += sequence.num_prompt_tokens
        self._skip_to(sequence, len(shared))

    def extend(self, sequence: Sequence) -> None:
        """Looks again, for what others have computed since; their blocks replace its own."""
        first = sequence.num_cached_tokens // self._blocks.block_size
        last = self._num_findable(sequence)
        if first >= last:
            return
        found = self._blocks.share(self._keys(sequence, last)[first:])
        if found:
            replaced = slice(first, first + len(found))
            self._blocks.free(sequence.block_table[replaced])
            sequence.block_table[replaced] = found
            self._skip_to(sequence, first + len(found))

    def publish(self, sequence: Sequence) -> None:
        """Offers the blocks that are full by now."""
        first = sequence.num_published_blocks
        num_tokens = min(sequence.num_cached_tokens, sequence.num_shareable_tokens)
        num_blocks = num_tokens // self._blocks.block_size
        if num_blocks <= first or sequence.is_forgotten:
            return
        keys = self._keys(sequence, num_blocks)
        origin = Origin(sequence.tenant_id or "", sequence.session)
        for block, key in zip(sequence.block_table[first:], keys[first:], strict=False):
            self._blocks.publish(block, key, origin)
        sequence.num_published_blocks = num_blocks

    def hold(self, sequence: Sequence) -> list[int]:
        """Takes hold of the blocks that its computed tokens can be found in, from the first on."""
        num_tokens = min(sequence.num_cached_tokens, sequence.num_shareable_tokens)
        return self._blocks.share(self._keys(sequence, num_tokens // self._blocks.block_size))

    def withdraw(self, sequence: Sequence) -> None:
        """Offers its blocks no more: what they hold may be why the sequence went wrong."""
        self._blocks.withdraw(sequence.block_table)

    def _skip_to(self, sequence: Sequence, num_blocks: int) -> None:
        num_tokens = num_blocks * self._blocks.block_size
        num_found = num_tokens - sequence.num_cached_tokens
        sequence.num_cached_tokens = num_tokens
        sequence.num_reused_tokens += num_found
        sequence.num_published_blocks = num_blocks
        if not sequence.num_preemptions:
            sequence.num_cached_prompt_tokens += num_found
            self.num_hit_tokens += num_found

    def _num_findable(self, sequence: Sequence) -> int:
        num_tokens = min(len(sequence.token_ids) - 1, sequence.num_shareable_tokens)
        return num_tokens // self._blocks.block_size

    def _is_sharing(self, sequence: Sequence) -> bool:
        return self._is_enabled and sequence.tenant_id is not None

    def _keys(self, sequence: Sequence, num_blocks: int) -> list[bytes]:
        if not self._is_enabled or sequence.tenant_id is None:
            return []
        keys, size = sequence.block_keys, self._blocks.block_size
        parent = (
            keys[-1]
            if keys
            else root_key(sequence.tenant_id, self._base_digest, sequence.adapters, sequence.forms)
        )
        for start in range(len(keys) * size, num_blocks * size, size):
            tokens = array("i", sequence.token_ids[start : start + size]).tobytes()
            parent = hashlib.sha256(parent + tokens).digest()
            keys.append(parent)
        return keys[:num_blocks]
