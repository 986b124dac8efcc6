"""transformers: `python -m bench.peers.encoder_transformers float32|bfloat16`.

A model of its own for each task, the adapters merged into it, or one model with PEFT's adapters,
where each row of a batch names its own (`adapter_names`).
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from peft import PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file

from bench.peers.child import serve
from bench.peers.vectors import pack_vectors


class EncoderTransformers:
    """Models in one number format."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def load(self, *, models: list[str], adapters: list[str], threads: int) -> dict[str, Any]:
        """`models`: directories of BertModel; `adapters`: PEFT directories for the first."""
        # Their notices of deprecation are not for those who read a benchmark.
        warnings.simplefilter("ignore", FutureWarning)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._models: list[Any] = [
            transformers.BertModel.from_pretrained(
                directory, dtype=self._dtype, add_pooling_layer=False, local_files_only=True
            ).eval()
            for directory in models
        ]
        self._is_mixed = bool(adapters)
        if adapters:
            model = PeftModel.from_pretrained(self._models[0], adapters[0], adapter_name="a0")
            for index, path in enumerate(adapters):
                if index:
                    model.load_adapter(path, adapter_name=f"a{index}")
                _load_factors(model, Path(path), f"a{index}")
            self._models = [model.eval()]
        return {"version": transformers.__version__}

    def encode(self, *, texts: list[list[int]], tasks: list[int | None]) -> dict[str, Any]:
        """Vectors of texts, each for its task, and the seconds it took."""
        begin = time.perf_counter()
        if self._is_mixed:
            names = ["__base__" if task is None else f"a{task}" for task in tasks]
            vectors = self._run(self._models[0], texts, adapter_names=names)
        elif len(self._models) == 1:
            vectors = self._run(self._models[0], texts)
        else:
            each = [
                self._run(self._models[task or 0], [text])
                for text, task in zip(texts, tasks, strict=True)
            ]
            vectors = torch.cat(each)
        return {"seconds": time.perf_counter() - begin, "vectors": pack_vectors(vectors.numpy())}

    def _run(self, model: Any, texts: list[list[int]], **more: Any) -> torch.Tensor:
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        mask = np.zeros((len(texts), longest), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)], mask[row, : len(text)] = text, 1
        attention = torch.from_numpy(mask)
        hidden = model(
            input_ids=torch.from_numpy(ids),
            attention_mask=None if mask.all() else attention,
            **more,
        ).last_hidden_state
        weights = attention.unsqueeze(-1)
        pooled: torch.Tensor = (hidden.float() * weights).sum(1) / weights.sum(1)
        return pooled


def _load_factors(model: Any, adapter: Path, name: str) -> None:
    """PEFT knows them by their paths below a classifier, and says nothing where none fits."""
    stored = load_file(adapter / "adapter_model.safetensors")
    factors = {
        key.replace("base_model.model.bert.", "base_model.model."): value
        for key, value in stored.items()
        if ".lora_" in key
    }
    found = set_peft_model_state_dict(model, factors, adapter_name=name)
    unset = [key for key in found.missing_keys if f".{name}." in key and ".lora_" in key]
    if found.unexpected_keys or unset:
        raise ValueError("the adapter does not fit the model")


if __name__ == "__main__":
    serve(EncoderTransformers(getattr(torch, sys.argv[1])))
