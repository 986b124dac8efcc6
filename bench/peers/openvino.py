"""OpenVINO GenAI reading the GGUF file: `python -m bench.peers.openvino` in its environment.

A generate call has one adapter. Streams that share it are a batch; different adapters run one
after another.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import openvino
import openvino_genai

from bench.peers.child import rows_by_adapter, serve


class OpenVino:
    """One pipeline with every adapter known to it."""

    def load(
        self, *, gguf: str, adapters: list[str], threads: int, max_streams: int, max_tokens: int
    ) -> dict[str, Any]:
        """Loads model and adapters (safetensors files)."""
        self._adapters = [openvino_genai.Adapter(path) for path in adapters]
        options: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads}
        if self._adapters:
            config = openvino_genai.AdapterConfig(openvino_genai.AdapterConfig.Mode.MODE_DYNAMIC)
            for adapter in self._adapters:
                config.add(adapter, 1.0)
            options["adapters"] = config
        self._pipeline = openvino_genai.LLMPipeline(gguf, "CPU", **options)
        return {"version": openvino_genai.__version__}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child. The decode time is the whole call less its first token."""
        begin = time.perf_counter()
        decode_s = 0.0
        token_ids: list[list[int]] = [[] for _ in prompts]
        for adapter, rows in rows_by_adapter(adapters):
            group_begin = time.perf_counter()
            done = self._generate([prompts[row] for row in rows], adapter, new_tokens + 1)
            first_token_s = done.perf_metrics.get_ttft().mean / 1000
            decode_s += time.perf_counter() - group_begin - first_token_s
            for row, tokens in zip(rows, done.tokens, strict=True):
                token_ids[row] = list(tokens)
        return {
            "decode_s": decode_s,
            "total_s": time.perf_counter() - begin,
            "token_ids": token_ids,
        }

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        self._generate([prompt], adapter, 1)
        return {"seconds": time.perf_counter() - begin}

    def perplexity(self, *, windows: list[list[int]]) -> dict[str, Any]:
        """Not offered: its pipelines give no probabilities of a prompt's tokens."""
        raise NotImplementedError("its pipeline gives no probabilities of a prompt's tokens")

    def _generate(self, prompts: list[list[int]], adapter: int | None, new_tokens: int) -> Any:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = True
        config.do_sample = False
        ids = np.asarray(prompts, dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(
            openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids))
        )
        options = {}
        if self._adapters:
            # Without any in the call, those of the pipeline's construction would be in force.
            chosen = openvino_genai.AdapterConfig()
            if adapter is not None:
                chosen.add(self._adapters[adapter], 1.0)
            options["adapters"] = chosen
        return self._pipeline.generate(inputs, config, **options)


if __name__ == "__main__":
    serve(OpenVino())
