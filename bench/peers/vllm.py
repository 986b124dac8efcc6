"""vLLM for CPUs, bfloat16: `python -m bench.peers.vllm` in its environment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import vllm
from vllm.lora.request import LoRARequest

from bench.peers.child import serve

_BATCH_TOKENS = 4096
_RANK = 16


class Vllm:
    """One engine with every adapter in a slot."""

    def load(
        self,
        *,
        model_directory: str,
        adapters: list[str],
        threads: int,
        max_streams: int,
        max_tokens: int,
    ) -> dict[str, Any]:
        """Loads the model; adapters are loaded when they are first used."""
        cores = sorted(os.sched_getaffinity(0))[:threads]
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
        os.environ["VLLM_CPU_NUM_OF_RESERVED_CPU"] = "0"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = "2"
        lora: dict[str, Any] = {}
        if adapters:
            lora = {
                "enable_lora": True,
                "max_loras": len(adapters),
                "max_cpu_loras": len(adapters),
                "max_lora_rank": _RANK,
            }
        self._adapters = [
            LoRARequest(Path(path).name, index + 1, path) for index, path in enumerate(adapters)
        ]
        self._engine = vllm.LLM(
            model_directory,
            dtype="bfloat16",
            max_model_len=max_tokens,
            max_num_seqs=max_streams,
            max_num_batched_tokens=_BATCH_TOKENS,
            enable_prefix_caching=False,
            disable_log_stats=False,
            **lora,
        )
        return {"version": vllm.__version__}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child. Decoding lasts from the first token of all to the last of all."""
        begin = time.perf_counter()
        done = self._generate(prompts, adapters, max_tokens=new_tokens + 1)
        total_s = time.perf_counter() - begin
        first_s = min(one.metrics.first_token_ts for one in done)
        last_s = max(one.metrics.last_token_ts for one in done)
        return {
            "decode_s": last_s - first_s,
            "total_s": total_s,
            "token_ids": [list(one.outputs[0].token_ids) for one in done],
        }

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        self._generate([prompt], [adapter], max_tokens=1)
        return {"seconds": time.perf_counter() - begin}

    def perplexity(self, *, windows: list[list[int]]) -> dict[str, Any]:
        """See bench.peers.child."""
        nll = 0.0
        for done in self._generate(windows, [None] * len(windows), max_tokens=1, prompt_logprobs=0):
            for token_id, found in zip(
                done.prompt_token_ids[1:], done.prompt_logprobs[1:], strict=True
            ):
                nll -= found[token_id].logprob
        return {"nll": nll, "tokens": sum(len(window) - 1 for window in windows)}

    def _generate(
        self, prompts: list[list[int]], adapters: list[int | None], **sampling: Any
    ) -> Any:
        lora = None
        if self._adapters:
            lora = [None if adapter is None else self._adapters[adapter] for adapter in adapters]
        return self._engine.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts],
            vllm.SamplingParams(temperature=0.0, ignore_eos=True, detokenize=False, **sampling),
            lora_request=lora,
            use_tqdm=False,
        )


if __name__ == "__main__":
    serve(Vllm())
