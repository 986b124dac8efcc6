"""Seeds of draws."""

from __future__ import annotations

from edgelora.toolchain.errors import ToolchainError

MAX_SEED = 2**63 - 1


def check_seed(seed: int) -> None:
    """Raises ToolchainError for a seed that not every generator takes."""
    if not 0 <= seed <= MAX_SEED:
        raise ToolchainError(f"the seed must be from 0 to {MAX_SEED}")
