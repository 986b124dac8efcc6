"""llama.cpp through llama-cpp-python: `python -m bench.peers.llama_cpp` in its environment.

A context has one set of adapters at a time. Streams that share one are decoded as a batch, as its
server does; different adapters run one after another.
"""

from __future__ import annotations

import ctypes
import math
import time
from typing import Any

import llama_cpp
import numpy as np

from bench.peers.child import rows_by_adapter, serve

_BATCH_TOKENS = 512
_F16_KV_ALIGNMENT = 256


class LlamaCpp:
    """One model in one context."""

    def quantise(self, *, source: str, target: str, kind: str) -> dict[str, Any]:
        """Writes `source` as `kind` (F32, Q4_0, Q4_1 ...) with llama.cpp's own quantiser."""
        which = "ALL" if kind == "F32" else "MOSTLY"
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_{which}_{kind}")
        parameters.allow_requantize = True
        status = llama_cpp.llama_model_quantize(
            source.encode(), target.encode(), ctypes.byref(parameters)
        )
        if status != 0:
            raise RuntimeError(f"llama_model_quantize returned {status}")
        return {}

    def load(
        self,
        *,
        gguf: str,
        adapters: list[str],
        threads: int,
        max_streams: int,
        max_tokens: int,
        exact: bool = False,
    ) -> dict[str, Any]:
        """Loads model and adapters (GGUF files). `exact`: keys and values are kept in float32."""
        self._model = llama_cpp.llama_model_load_from_file(
            gguf.encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError("the GGUF file could not be loaded")
        parameters = llama_cpp.llama_context_default_params()
        each = math.ceil(max_tokens / _F16_KV_ALIGNMENT) * _F16_KV_ALIGNMENT
        parameters.n_ctx = each * max_streams
        parameters.n_seq_max = max_streams
        parameters.n_batch = parameters.n_ubatch = _BATCH_TOKENS
        parameters.n_threads = parameters.n_threads_batch = threads
        if exact:
            parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
            parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise RuntimeError("no context could be made")
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self._model)
        )
        self._adapters = [
            llama_cpp.llama_adapter_lora_init(self._model, path.encode()) for path in adapters
        ]
        if not all(self._adapters):
            raise RuntimeError("an adapter could not be loaded")
        self._batch = llama_cpp.llama_batch_init(_BATCH_TOKENS, 0, 1)
        return {"version": llama_cpp.__version__}

    def decode(
        self, *, prompts: list[list[int]], adapters: list[int | None], new_tokens: int
    ) -> dict[str, Any]:
        """See bench.peers.child."""
        begin = time.perf_counter()
        prefill_s = 0.0
        token_ids: list[list[int]] = [[] for _ in prompts]
        self._clear()
        for adapter, rows in rows_by_adapter(adapters):
            group_begin = time.perf_counter()
            self._use(adapter)
            ids = self._prefill([prompts[row] for row in rows])
            prefill_s += time.perf_counter() - group_begin
            for step in range(new_tokens):
                for row, token_id in zip(rows, ids, strict=True):
                    token_ids[row].append(token_id)
                position = len(prompts[0]) + step
                ids = self._run([([token_id], position) for token_id in ids])
            for row, token_id in zip(rows, ids, strict=True):
                token_ids[row].append(token_id)
            self._clear()
        total_s = time.perf_counter() - begin
        return {"decode_s": total_s - prefill_s, "total_s": total_s, "token_ids": token_ids}

    def prefill(self, *, prompt: list[int], adapter: int | None) -> dict[str, Any]:
        """See bench.peers.child."""
        self._clear()
        self._use(adapter)
        begin = time.perf_counter()
        self._prefill([prompt])
        return {"seconds": time.perf_counter() - begin}

    def perplexity(self, *, windows: list[list[int]], first: int = 1) -> dict[str, Any]:
        """See bench.peers.child."""
        self._use(None)
        nll = 0.0
        for window in windows:
            self._clear()
            self._fill([(window, 0)], every_logit=True)
            for index in range(first - 1, len(window) - 1):
                row = self._logits(index).astype(np.float64)
                best = row.max()
                nll += best + math.log(np.exp(row - best).sum()) - row[window[index + 1]]
        return {"nll": nll, "tokens": sum(len(window) - first for window in windows)}

    def logits(self, *, prompt: list[int], adapter: int | None, target: str) -> dict[str, Any]:
        """See bench.peers.child."""
        self._clear()
        self._use(adapter)
        self._fill([(prompt, 0)], every_logit=True)
        rows = [self._logits(index).copy() for index in range(len(prompt))]
        np.save(target, np.stack(rows))
        return {}

    def _prefill(self, prompts: list[list[int]]) -> list[int]:
        each = max(1, _BATCH_TOKENS // len(prompts))
        for at in range(0, len(prompts[0]), each):
            ids = self._run([(prompt[at : at + each], at) for prompt in prompts])
        return ids

    def _run(self, chunks: list[tuple[list[int], int]]) -> list[int]:
        """Runs (tokens, position) of each stream; returns the likeliest next ids."""
        return [int(self._logits(index).argmax()) for index in self._fill(chunks)]

    def _fill(self, chunks: list[tuple[list[int], int]], *, every_logit: bool = False) -> list[int]:
        """Runs a batch; returns the index of each stream's last token."""
        batch, index, last = self._batch, 0, []
        for stream, (tokens, position) in enumerate(chunks):
            for offset, token_id in enumerate(tokens):
                batch.token[index] = token_id
                batch.pos[index] = position + offset
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = stream
                batch.logits[index] = every_logit or offset == len(tokens) - 1
                index += 1
            last.append(index - 1)
        batch.n_tokens = index
        status = llama_cpp.llama_decode(self._context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        return last

    def _logits(self, index: int) -> Any:
        pointer = llama_cpp.llama_get_logits_ith(self._context, index)
        return np.ctypeslib.as_array(pointer, shape=(self._vocab_size,))

    def _use(self, adapter: int | None) -> None:
        chosen = [] if adapter is None else [self._adapters[adapter]]
        handles = (llama_cpp.llama_adapter_lora_p_ctypes * len(chosen))(*chosen)
        scales = (ctypes.c_float * len(chosen))(*([1.0] * len(chosen)))
        if llama_cpp.llama_set_adapters_lora(self._context, handles, len(chosen), scales) != 0:
            raise RuntimeError("the adapter could not be set")

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)


if __name__ == "__main__":
    serve(LlamaCpp())
