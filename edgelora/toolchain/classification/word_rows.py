"""The rows of the word table that training texts use, as all that is trained of it.

A row that no text uses has no gradient and would stay what it is; half of the steps' time would go
into not changing it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class WordRows(torch.nn.Module):
    """Stands in for an embedding while it is trained."""

    def __init__(self, whole: torch.nn.Embedding, texts: Iterable[NDArray[np.int32]]) -> None:
        super().__init__()
        used = torch.from_numpy(np.unique(np.concatenate([[0], *texts])).astype(np.int64))
        # What pads, 0, is among them.
        self._whole = [whole]  # in a list, its parameters are not ours
        self._used = used
        self._places = torch.zeros(whole.num_embeddings, dtype=torch.int64)
        self._places[used] = torch.arange(len(used))
        self.weight = torch.nn.Parameter(whole.weight.detach()[used].clone())

    def forward(self, token_ids: Tensor) -> Tensor:
        """As the embedding. A token that no training text had has its untrained row."""
        if self.training:
            return torch.nn.functional.embedding(self._places[token_ids], self.weight)
        return torch.nn.functional.embedding(token_ids, self.whole().weight)

    @torch.no_grad()
    def whole(self) -> torch.nn.Embedding:
        """The embedding with the rows as they are now."""
        (whole,) = self._whole
        whole.weight[self._used] = self.weight
        return whole
