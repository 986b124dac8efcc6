"""The pool of KV blocks. It only counts; the memory belongs to the back end."""

from __future__ import annotations


class OutOfBlocksError(Exception):
    """More blocks were asked for than are free. The caller asked without looking."""


class KvBlockPool:
    """Hands out block numbers 0 to num_blocks - 1, each to one holder at a time."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError("a KV block pool needs at least one block of at least one token")
        self.num_blocks = num_blocks
        self.block_size = block_size
        # The last one given back is handed out first: its memory is the likeliest to be cached.
        self._free = list(range(num_blocks - 1, -1, -1))
        self._is_used = [False] * num_blocks

    @property
    def num_free(self) -> int:
        """Blocks nobody holds."""
        return len(self._free)

    @property
    def capacity_tokens(self) -> int:
        """Tokens the whole pool can hold."""
        return self.num_blocks * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that many tokens of one sequence need."""
        return -(-num_tokens // self.block_size)

    def allocate(self, num_blocks: int) -> list[int]:
        """Takes blocks out of the pool. Raises OutOfBlocksError, taking none."""
        if num_blocks > len(self._free):
            raise OutOfBlocksError(f"{num_blocks} blocks wanted, {len(self._free)} free")
        taken = [self._free.pop() for _ in range(num_blocks)]
        for block in taken:
            self._is_used[block] = True
        return taken

    def free(self, blocks: list[int]) -> None:
        """Gives blocks back. Raises ValueError when one of them is not in use."""
        for block in blocks:
            if not self._is_used[block]:
                raise ValueError(f"block {block} was freed twice")
            self._is_used[block] = False
            self._free.append(block)
