"""transformers + PEFT, float32, rows with adapters of their own: `python -m bench.peers.peft`."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import peft
import torch
import transformers

from bench.peers.child import serve

_BASE = "__base__"
"""PEFT's name for a row without an adapter."""


class Peft:
    """The model with every adapter loaded."""

    def load(
        self,
        *,
        model_directory: str,
        adapters: list[str],
        threads: int,
        max_streams: int,
        max_tokens: int,
    ) -> dict[str, Any]:
        """Loads the model and the adapters."""
        # Their notices of deprecation are not for those who read a benchmark.
        warnings.simplefilter("ignore", FutureWarning)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            model_directory, dtype=torch.float32
        )
        if adapters:
            model = peft.PeftModel.from_pretrained(model, adapters[0], adapter_name="a0")
        for index, path in enumerate(adapters[1:], start=1):
            model.load_adapter(path, adapter_name=f"a{index}")
        self._model = model.eval()
        self._has_adapters = bool(adapters)
        return {"version": peft.__version__}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        ids, cache = self._step(torch.tensor(prompts), None, adapters)
        chosen = [ids]
        decode_begin = time.perf_counter()
        for _ in range(new_tokens):
            ids, cache = self._step(ids, cache, adapters)
            chosen.append(ids)
        end = time.perf_counter()
        return {
            "decode_s": end - decode_begin,
            "total_s": end - begin,
            "token_ids": torch.cat(chosen, dim=1).tolist(),
        }

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        self._step(torch.tensor([prompt]), None, [adapter])
        return {"seconds": time.perf_counter() - begin}

    def perplexity(self, *, windows: list[list[int]], first: int = 1) -> dict[str, Any]:
        """See bench.peers.child."""
        nll = 0.0
        for window in windows:
            ids = torch.tensor([window])
            output = self._model(input_ids=ids, **self._names([None]))
            logits, wanted = output.logits[0, first - 1 : -1], ids[0, first:]
            nll += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
        return {"nll": nll, "tokens": sum(len(window) - first for window in windows)}

    def logits(self, *, prompt: list[int], adapter: int | None, target: str) -> dict[str, Any]:
        """See bench.peers.child."""
        rows = self._model(input_ids=torch.tensor([prompt]), **self._names([adapter])).logits[0]
        np.save(target, rows.numpy())
        return {}

    def _step(
        self, ids: torch.Tensor, cache: Any, adapters: list[int | None]
    ) -> tuple[torch.Tensor, Any]:
        output = self._model(
            input_ids=ids,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
            **self._names(adapters),
        )
        return output.logits[:, -1].argmax(-1, keepdim=True), output.past_key_values

    def _names(self, adapters: list[int | None]) -> dict[str, list[str]]:
        if not self._has_adapters:
            return {}
        return {"adapter_names": [_BASE if one is None else f"a{one}" for one in adapters]}


if __name__ == "__main__":
    serve(Peft())
