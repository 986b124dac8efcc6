"""Our encoder back end: `python -m bench.peers.encoder_native`.

Either one model with all the adapters, or a model of its own for each task.
"""

from __future__ import annotations

import importlib.metadata
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.child import serve
from bench.peers.vectors import pack_vectors
from edgelora.adapter_format.encoder import read_encoder_adapter
from edgelora.adapter_format.head import FILE as HEAD_FILE
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderBackend, EncoderLimits, EncoderText
from services.inference.encoder.native_backend import NativeEncoderBackend

_MAX_RANK = 16
_STEP_TOKENS = 1024


class EncoderNative:
    """One back end with slots, or one for each model."""

    def load(self, *, models: list[str], adapters: list[str], threads: int) -> dict[str, Any]:
        """`models`: prepared directories; `adapters`: PEFT directories for the first of them."""
        limits = EncoderLimits(
            max_loras=max(1, len(adapters)), max_lora_rank=_MAX_RANK, max_step_tokens=_STEP_TOKENS
        )
        self._backends: list[EncoderBackend] = []
        self._has_adapters = bool(adapters)
        for directory in models:
            backend = NativeEncoderBackend(num_threads=threads)
            base = backend.load_model(Path(directory), limits)
            self._backends.append(backend)
        for slot, path in enumerate(map(Path, adapters)):
            read = read_encoder_adapter(
                (path / "adapter_config.json").read_bytes(),
                (path / "adapter_model.safetensors").read_bytes(),
                (path / HEAD_FILE).read_bytes(),
                targets=base.targets,
                num_layers=base.num_layers,
                hidden_size=base.hidden_size,
                max_rank=_MAX_RANK,
            )
            self._backends[0].load_adapter(slot, read.weights)
        return {"version": importlib.metadata.version("edgelora")}

    def encode(self, *, texts: list[list[int]], tasks: list[int | None]) -> dict[str, Any]:
        """Vectors of texts, each for its task (an adapter, or a model), and the seconds it took."""
        wanted = [np.array(text, np.int32) for text in texts]
        begin = time.perf_counter()
        if self._has_adapters:
            uses = [() if task is None else (SlotWeight(task, 1.0),) for task in tasks]
            vectors = self._backends[0].encode(
                [
                    EncoderText(token_ids=text, adapters=use, pooling="mean")
                    for text, use in zip(wanted, uses, strict=True)
                ]
            )
        else:
            vectors = np.concatenate(
                [
                    self._backends[task or 0].encode(
                        [EncoderText(token_ids=text, adapters=(), pooling="mean")]
                    )
                    for text, task in zip(wanted, tasks, strict=True)
                ]
            )
        return {"seconds": time.perf_counter() - begin, "vectors": pack_vectors(vectors)}


if __name__ == "__main__":
    serve(EncoderNative())
