"""The pool of KV blocks: who holds which. The memory belongs to the back end.

A block full of computed tokens may be published under a key. From then on nobody writes to it and
others may hold it too. Without a holder it stays, until its memory is needed (least recently used
first, after all blocks that hold nothing). What a withdrawn block held is overwritten by the next
holder before it is read.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class OutOfBlocksError(Exception):
    """More blocks were asked for than are free. The caller asked without looking."""


class Origin(NamedTuple):
    """Whose request computed a published block."""

    tenant_id: str
    session: str
    """Empty for none."""


class KvBlockPool:
    """Hands out block numbers 0 to num_blocks - 1; only published ones have several holders."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError("a KV block pool needs at least one block of at least one token")
        self.num_blocks = num_blocks
        self.block_size = block_size
        # The last one given back is handed out first: its memory is the likeliest to be cached.
        self._empty = list(range(num_blocks - 1, -1, -1))
        self._num_holders = [0] * num_blocks
        self._keys: dict[int, bytes] = {}
        self._by_key: dict[bytes, int] = {}
        self._origins: dict[int, Origin] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Published blocks without a holder, least recently used first."""

    @property
    def num_free(self) -> int:
        """Blocks nobody holds."""
        return len(self._empty) + len(self._idle)

    @property
    def num_published(self) -> int:
        """Blocks that can be found by a key, held or not."""
        return len(self._by_key)

    @property
    def capacity_tokens(self) -> int:
        """Tokens the whole pool can hold."""
        return self.num_blocks * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that many tokens of one sequence need."""
        return -(-num_tokens // self.block_size)

    def allocate(self, num_blocks: int) -> list[int]:
        """Takes blocks nobody holds, to be written. Raises OutOfBlocksError, taking none."""
        if num_blocks > self.num_free:
            raise OutOfBlocksError(f"{num_blocks} blocks wanted, {self.num_free} free")
        taken = [self._take_one() for _ in range(num_blocks)]
        for block in taken:
            self._num_holders[block] = 1
        return taken

    def publish(self, block: int, key: bytes, origin: Origin) -> None:
        """Lets a held block be found. One whose key another block has stays its holder's own."""
        if key not in self._by_key and block not in self._keys:
            self._by_key[key] = block
            self._keys[block] = key
            self._origins[block] = origin

    def published_by(self, tenant_id: str, session: str) -> set[int]:
        """The published blocks of a tenant's session; of all its requests where it is empty."""
        return {
            block
            for block, origin in self._origins.items()
            if origin.tenant_id == tenant_id and session in ("", origin.session)
        }

    def withdraw(self, blocks: Iterable[int]) -> None:
        """Lets blocks be found no more, held or not."""
        for block in blocks:
            if block not in self._keys:
                continue
            self._forget_key(block)
            if self._num_holders[block] == 0:
                del self._idle[block]
                self._empty.append(block)

    def share(self, keys: Iterable[bytes]) -> list[int]:
        """Takes hold of the published blocks with these keys, up to the first that is missing."""
        shared = []
        for key in keys:
            block = self._by_key.get(key)
            if block is None:
                break
            if self._num_holders[block] == 0:
                del self._idle[block]
            self._num_holders[block] += 1
            shared.append(block)
        return shared

    def free(self, blocks: Sequence[int]) -> None:
        """Gives one hold on each block back. Raises ValueError when there is none."""
        # The end of a prefix is worth nothing without its start, so it is the first to go.
        for block in reversed(blocks):
            if self._num_holders[block] == 0:
                raise ValueError(f"block {block} was freed twice")
            self._num_holders[block] -= 1
            if self._num_holders[block]:
                continue
            if block in self._keys:
                self._idle[block] = None
            else:
                self._empty.append(block)

    def num_released_by(self, tables: Iterable[Sequence[int]]) -> int:
        """Blocks that would be free if the holders of these tables gave them back."""
        holds = Counter(block for table in tables for block in table)
        return sum(count == self._num_holders[block] for block, count in holds.items())

    def _take_one(self) -> int:
        if self._empty:
            return self._empty.pop()
        block, _ = self._idle.popitem(last=False)
        self._forget_key(block)
        return block

    def _forget_key(self, block: int) -> None:
        del self._by_key[self._keys.pop(block)]
        del self._origins[block]
