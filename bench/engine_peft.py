"""transformers + PEFT decoding a batch whose rows use different adapters (`adapter_names`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel
from transformers import AutoModelForCausalLM


class PeftStreams:
    """The model with every adapter loaded."""

    def __init__(self, model_dir: Path, adapters: Sequence[Path]) -> None:
        """Loads the model in fp32 and the adapters, at least one."""
        base = AutoModelForCausalLM.from_pretrained(str(model_dir), dtype=torch.float32)
        model: Any = PeftModel.from_pretrained(base, str(adapters[0]), adapter_name="a0")
        for index, directory in enumerate(adapters[1:], start=1):
            model.load_adapter(str(directory), adapter_name=f"a{index}")
        self._model = model.eval()
        self._num_adapters = len(adapters)

    @torch.inference_mode()
    def decode_speed(
        self, prompts: NDArray[np.int32], new_tokens: int, *, with_adapters: bool = True
    ) -> float:
        """Returns tokens a second over all rows of `prompts`, [streams, length]; no prefill."""
        names = [
            f"a{row % self._num_adapters}" if with_adapters else "__base__"
            for row in range(len(prompts))
        ]

        def step(ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
            output = self._model(
                input_ids=ids, past_key_values=cache, use_cache=True, adapter_names=names,
                logits_to_keep=1,
            )  # fmt: skip
            return output.logits[:, -1].argmax(-1, keepdim=True), output.past_key_values

        ids, cache = step(torch.from_numpy(prompts).long(), None)
        ids, cache = step(ids, cache)
        begin = time.perf_counter()
        for _ in range(new_tokens):
            ids, cache = step(ids, cache)
        return len(prompts) * new_tokens / (time.perf_counter() - begin)
