"""Decode speed of eight adapters in one batch: transformers with PEFT beside the torch back end.

Both run the same prompts with the same adapters greedily for the same number of tokens, in this
process, with the same number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgelora.adapter_format import AdapterWeights, read_adapter
from services.chassis.base_model import BaseModel
from services.inference.backends.base import Backend, BackendLimits, SequenceChunk, SlotWeight
from services.inference.backends.torch_backend import TorchBackend

PROMPT_TOKENS = 20
"""Length of the prompts that streams start from."""
BLOCK_SIZE = 16
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True, slots=True)
class TorchSpeed:
    """Aggregate speed of the torch back end, tokens a second over all streams."""

    decode: float
    prefill: float


def make_random_adapters(model_dir: Path, out_dir: Path, count: int, rank: int) -> list[Path]:
    """Writes `count` PEFT adapters on all linear modules with random, non-zero B.

    Returns their directories.
    """
    from peft import LoraConfig, get_peft_model

    model: Any = _load_transformers(model_dir)
    directories = []
    for index in range(count):
        torch.manual_seed(index)
        config = LoraConfig(
            r=rank, lora_alpha=rank, target_modules=ALL_LINEAR, task_type="CAUSAL_LM"
        )
        adapted: Any = get_peft_model(model, config)
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.02)
        directory = out_dir / f"adapter-{index}"
        adapted.save_pretrained(str(directory))
        model = adapted.unload()
        directories.append(directory)
    return directories


class PeftStreams:
    """transformers + PEFT with every adapter loaded; `adapter_names` gives each row its own."""

    def __init__(self, model_dir: Path, adapters: Sequence[Path]) -> None:
        """Loads the model in fp32 and the adapters."""
        from peft import PeftModel

        model: Any = None
        for index, directory in enumerate(adapters):
            if model is None:
                base = _load_transformers(model_dir)
                model = PeftModel.from_pretrained(base, str(directory), adapter_name="a0")
            else:
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


class TorchStreams:
    """The torch back end with every adapter in a slot, driven without the engine."""

    def __init__(
        self,
        model_dir: Path,
        adapters: Sequence[Path],
        *,
        num_threads: int,
        dtype: torch.dtype = torch.float32,
        streams: int = 8,
        max_tokens: int = 256,
    ) -> None:
        """Loads the model and the adapters; `max_tokens` bounds each stream, prompt included."""
        self._blocks_per_stream = -(-max_tokens // BLOCK_SIZE)
        self._backend: Backend = TorchBackend(num_threads=num_threads, dtype=dtype)
        model = BaseModel.load(model_dir)
        loaded = [_read(directory, model) for directory in adapters]
        limits = BackendLimits(
            num_kv_blocks=streams * self._blocks_per_stream,
            block_size=BLOCK_SIZE,
            max_loras=max(1, len(loaded)),
            max_lora_rank=max((weights.max_rank for weights in loaded), default=1),
        )
        self._backend.load_model(model_dir, limits)
        for slot, weights in enumerate(loaded):
            self._backend.load_adapter(slot, weights)
        self._num_adapters = len(loaded)

    def prefill_speed(self, prompts: NDArray[np.int32]) -> float:
        """Returns prompt tokens a second, all prompts in one step."""
        begin = time.perf_counter()
        self._step(prompts, 0)
        return prompts.size / (time.perf_counter() - begin)

    def decode_speed(self, prompts: NDArray[np.int32], new_tokens: int) -> float:
        """Returns tokens a second over all rows of `prompts`, [streams, length]; no prefill."""
        length = prompts.shape[1]
        ids = self._step(prompts, 0)
        ids = self._step(ids, length)
        begin = time.perf_counter()
        for index in range(new_tokens):
            ids = self._step(ids, length + 1 + index)
        return len(prompts) * new_tokens / (time.perf_counter() - begin)

    def _step(self, ids: NDArray[np.int32], start: int) -> NDArray[np.int32]:
        per_stream = self._blocks_per_stream
        logits = self._backend.forward(
            [
                SequenceChunk(
                    token_ids=tokens,
                    start_position=start,
                    block_table=range(row * per_stream, (row + 1) * per_stream),
                    adapters=(SlotWeight(row % self._num_adapters, 1.0),)
                    if self._num_adapters
                    else (),
                    needs_logits=True,
                )
                for row, tokens in enumerate(ids)
            ]
        )
        chosen: NDArray[np.int32] = logits.argmax(axis=-1).astype(np.int32)[:, None]
        return chosen


def random_prompts(model_dir: Path, streams: int, length: int = PROMPT_TOKENS) -> NDArray[np.int32]:
    """Returns distinct random prompts, [streams, length], the same at every call."""
    vocabulary = BaseModel.load(model_dir).vocab_size
    generator = np.random.default_rng(0)
    prompts: NDArray[np.int32] = generator.integers(
        100, vocabulary, (streams, length), dtype=np.int32
    )
    return prompts


def measure_peft(
    model_dir: Path, adapters: Sequence[Path], streams: int, new_tokens: int, num_threads: int
) -> float:
    """Returns the decode speed of transformers + PEFT, tokens a second over all streams."""
    torch.set_num_threads(num_threads)
    prompts = random_prompts(model_dir, streams)
    return PeftStreams(model_dir, adapters).decode_speed(prompts, new_tokens)


def measure_torch_backend(
    model_dir: Path,
    adapters: Sequence[Path],
    streams: int,
    new_tokens: int,
    num_threads: int,
    dtype: torch.dtype = torch.float32,
) -> TorchSpeed:
    """Returns decode speed and the prefill speed of one 64-token prompt a stream."""
    engine = TorchStreams(
        model_dir,
        adapters,
        num_threads=num_threads,
        dtype=dtype,
        streams=streams,
        max_tokens=max(64, PROMPT_TOKENS + new_tokens + 2),
    )
    decode = engine.decode_speed(random_prompts(model_dir, streams), new_tokens)
    prompts = random_prompts(model_dir, streams, 64)
    engine.prefill_speed(prompts)
    return TorchSpeed(decode=decode, prefill=engine.prefill_speed(prompts))


def _load_transformers(model_dir: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(model_dir), dtype=torch.float32)


def _read(directory: Path, model: BaseModel) -> AdapterWeights:
    _, weights = read_adapter(
        (directory / "adapter_config.json").read_bytes(),
        (directory / "adapter_model.safetensors").read_bytes(),
        targets=model.targets,
        num_layers=model.num_layers,
        max_rank=256,
    )
    return weights
