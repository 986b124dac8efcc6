"""An adapter's matrices, checked and ready to be put into a slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LoraPair:
    """The two factors of one module's update: W x + scaling * B (A x)."""

    lora_a: NDArray[np.float32]
    """Shape [rank, in_features]."""
    lora_b: NDArray[np.float32]
    """Shape [out_features, rank]."""
    scaling: float
    """alpha / rank, or alpha / sqrt(rank) for rank-stabilised adapters (arXiv 2312.03732)."""


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """Every pair of an adapter, keyed by (layer index, module name such as `q_proj`)."""

    pairs: dict[tuple[int, str], LoraPair]

    @property
    def max_rank(self) -> int:
        """The largest rank of any module, 0 without any."""
        return max((int(pair.lora_a.shape[0]) for pair in self.pairs.values()), default=0)
