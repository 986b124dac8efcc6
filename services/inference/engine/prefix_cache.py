"""Finds the KV blocks that a sequence's first tokens already have, and offers its own.

A block's key is a SHA-256 over all its keys and values depend on and who may see them: tenant,
base model, adapters with their strengths, every token before it and its own. A match is therefore
the same tenant's own work, and the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from array import array

from services.inference.engine.kv_blocks import KvBlockPool
from services.inference.engine.sequence import AdapterUse, Sequence


def root_key(tenant_id: str, base_digest: str, adapters: tuple[AdapterUse, ...]) -> bytes:
    """What the keys of a sequence's blocks start from. JSON tells every field from the next."""
    uses = [[use.digest, use.weight] for use in adapters]
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
        """Prompt tokens of admitted sequences that could have been found."""
        self.num_hit_tokens = 0
        """Those of them that were."""

    def take(self, sequence: Sequence) -> list[int]:
        """Takes hold of the blocks of the longest known prefix.

        It ends before the newest token, which has to run for its logits.
        """
        num_blocks = (len(sequence.token_ids) - 1) // self._blocks.block_size
        return self._blocks.share(self._keys(sequence, num_blocks))

    def begin(self, sequence: Sequence, shared: list[int]) -> None:
        """Lets a sequence start behind the blocks that `take` found."""
        num_tokens = len(shared) * self._blocks.block_size
        sequence.num_cached_tokens = sequence.num_reused_tokens = num_tokens
        sequence.num_published_blocks = len(shared)
        if sequence.num_cached_prompt_tokens is None:
            sequence.num_cached_prompt_tokens = num_tokens
            self.num_hit_tokens += num_tokens
            if self._is_enabled and sequence.tenant_id is not None:
                self.num_lookup_tokens += sequence.num_prompt_tokens

    def publish(self, sequence: Sequence) -> None:
        """Offers a sequence's full blocks. Only for one whose newest logits are finite."""
        num_blocks = sequence.num_cached_tokens // self._blocks.block_size
        if num_blocks == sequence.num_published_blocks:
            return
        first = sequence.num_published_blocks
        keys = self._keys(sequence, num_blocks)
        for block, key in zip(sequence.block_table[first:], keys[first:], strict=False):
            self._blocks.publish(block, key)
        sequence.num_published_blocks = num_blocks

    def _keys(self, sequence: Sequence, num_blocks: int) -> list[bytes]:
        if not self._is_enabled or sequence.tenant_id is None:
            return []
        keys, size = sequence.block_keys, self._blocks.block_size
        parent = (
            keys[-1] if keys else root_key(sequence.tenant_id, self._base_digest, sequence.adapters)
        )
        for start in range(len(keys) * size, num_blocks * size, size):
            tokens = array("i", sequence.token_ids[start : start + size]).tobytes()
            parent = hashlib.sha256(parent + tokens).digest()
            keys.append(parent)
        return keys[:num_blocks]
