"""The reference back end: plain torch operations, on the CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding, rms_norm, silu

from edgelora.adapter_format.codec import decode
from edgelora.adapter_format.weights import AdapterWeights
from services.chassis.base_model import FLOAT32_FILE, BaseModel
from services.inference.backends.base import (
    BackendLimits,
    BackendTelemetry,
    EncodedAdapter,
    LoadableAdapter,
    SequenceChunk,
    UnfitAdapterError,
    kv_features,
)
from services.inference.backends.numpy_sampling import sample_rows
from services.inference.backends.sampling import ChosenToken, RowSampling
from services.inference.backends.torch_attention import PagedKvCache
from services.inference.backends.torch_linear import FrozenLinear
from services.inference.backends.torch_lora import LoraBank
from services.inference.backends.torch_model import DecoderConfig, load_weights
from services.inference.backends.torch_rope import rope_tables, rotate
from services.inference.backends.torch_step import order_chunks

INPUT_GROUPS = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "o": ("o_proj",),
    "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}
"""Modules that read the same input run as one product."""


class TorchBackend:
    """Implements `base.Backend` for the decoders of `torch_model`.

    The one thread that uses it should be the only one of the process to run torch operations: a
    second thread brings a second OpenMP team, and with more threads than cores every operation
    puts its team to sleep and wakes it again (measured on two cores: 160 instead of 270 tokens/s).
    """

    name = "torch"
    loads_beside_forward = False
    canary_tolerance = 0.5
    """Registration measures on 4-bit weights, which these are not."""

    def __init__(
        self,
        *,
        num_threads: int,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> None:
        """`num_threads`: threads of torch in this process. `dtype`: float32 or bfloat16."""
        if num_threads < 1:
            raise ValueError(f"num_threads is {num_threads}, it must be at least 1")
        if dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"dtype is {dtype}, it must be float32 or bfloat16")
        self.num_threads = num_threads
        self._dtype = dtype
        self._device = torch.device(device)

    @staticmethod
    def probe() -> str | None:
        """See Backend. Runs one small product in the layout the weights will have."""
        weight = torch.eye(16)
        if not torch.equal(FrozenLinear(weight)(weight), weight):
            return "torch computes wrong products on this machine: use another build of torch"
        return None

    def kv_bytes_per_token(self, directory: Path) -> int:
        """See Backend."""
        return kv_features(BaseModel.load(directory)) * self._dtype.itemsize

    @torch.inference_mode()
    def load_model(self, directory: Path, limits: BackendLimits) -> BaseModel:
        """See Backend."""
        torch.set_num_threads(self.num_threads)
        model = BaseModel.load(directory)
        model.verify_file(directory, FLOAT32_FILE)
        config = DecoderConfig.load(directory)
        self._weights = load_weights(directory, config, self._dtype, self._device)
        tables = rope_tables(config.rotary, model.max_context_tokens, self._dtype)
        self._cos = tables.cos.to(self._device)
        self._signed_sin = tables.signed_sin.to(self._device)
        self._cache = PagedKvCache(
            num_layers=config.num_layers,
            num_blocks=limits.num_kv_blocks,
            block_size=limits.block_size,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=self._dtype,
            device=self._device,
        )
        self._banks = {
            group: LoraBank(
                modules,
                [model.targets[module] for module in modules],
                num_layers=config.num_layers,
                max_loras=limits.max_loras,
                max_rank=limits.max_lora_rank,
                dtype=self._dtype,
                device=self._device,
            )
            for group, modules in INPUT_GROUPS.items()
        }
        self._model = model
        self._config = config
        self._limits = limits
        return model

    @torch.inference_mode()
    def load_adapter(self, slot: int, adapter: LoadableAdapter) -> int:
        """See Backend. Raises ValueError when there is no such slot."""
        self._check_slot(slot)
        weights = decode(adapter.data) if isinstance(adapter, EncodedAdapter) else adapter
        self._check_fit(weights)
        num_bytes = 0
        for bank in self._banks.values():
            bank.clear(slot)
            num_bytes += bank.write(slot, weights)
        return num_bytes

    @torch.inference_mode()
    def unload_adapter(self, slot: int, *, keep_memory: bool = False) -> None:
        """See Backend. The memory stays in any case, zeroed."""
        self._check_slot(slot)
        for bank in self._banks.values():
            bank.clear(slot)

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self._limits.max_loras:
            raise ValueError(f"slot is {slot}, there are {self._limits.max_loras}")

    def _check_fit(self, weights: AdapterWeights) -> None:
        targets, cap = self._model.targets, self._limits.max_lora_rank
        for (layer, module), pair in weights.pairs.items():
            name = f"layer {layer} {module}"
            if module not in targets or not 0 <= layer < self._model.num_layers:
                raise UnfitAdapterError(f"{name} does not exist in {self._model.name}")
            rank = pair.lora_a.shape[0]
            if not 1 <= rank <= cap:
                raise UnfitAdapterError(f"{name} has rank {rank}, the slots hold 1 to {cap}")
            outputs, inputs = targets[module]
            if pair.lora_a.shape != (rank, inputs) or pair.lora_b.shape != (outputs, rank):
                raise UnfitAdapterError(
                    f"{name} has A {list(pair.lora_a.shape)} and B {list(pair.lora_b.shape)}, "
                    f"the model needs [{rank}, {inputs}] and [{outputs}, {rank}]"
                )

    def set_num_threads(self, count: int) -> None:
        """See Backend. Sums are split otherwise, so the last bits may differ."""
        torch.set_num_threads(count)
        self.num_threads = count

    @torch.inference_mode()
    def forward(self, chunks: Sequence[SequenceChunk]) -> NDArray[np.float32]:
        """See Backend. Raises ValueError when a chunk exceeds its blocks, context or slots."""
        self._check_chunks(chunks)
        order, lora = order_chunks(chunks, self._device)
        ordered = [chunks[index] for index in order]
        attention = self._cache.plan(ordered)
        for bank in self._banks.values():
            bank.begin(lora)
        counts = [len(chunk.token_ids) for chunk in ordered]
        tokens = np.concatenate([chunk.token_ids for chunk in ordered])
        positions = np.concatenate(
            [
                chunk.start_position + np.arange(len(chunk.token_ids), dtype=np.int64)
                for chunk in ordered
            ]
        )

        weights, config, eps = self._weights, self._config, self._config.rms_norm_eps
        hidden = (config.hidden_size,)
        rotated_heads = config.num_heads + config.num_kv_heads
        at = torch.from_numpy(positions).to(self._device)
        cos, signed_sin = self._cos[at], self._signed_sin[at]
        x = embedding(torch.from_numpy(tokens).to(self._device), weights.embed_tokens)
        for index, layer in enumerate(weights.layers):
            y = rms_norm(x, hidden, layer.attention_norm, eps)
            qkv = layer.qkv(y)
            self._banks["qkv"].add(index, qkv, y)
            heads = qkv.view(len(x), -1, config.head_dim)
            rotated = heads[:, :rotated_heads]
            if layer.qk_norm is not None:
                rotated.copy_(rms_norm(rotated, (config.head_dim,), None, eps).mul_(layer.qk_norm))
            rotate(rotated, cos, signed_sin)
            y = self._cache.attend(index, heads, attention)
            output = layer.o(y)
            self._banks["o"].add(index, output, y)
            x = output.add_(x)

            y = rms_norm(x, hidden, layer.mlp_norm, eps)
            gate_up = layer.gate_up(y)
            self._banks["gate_up"].add(index, gate_up, y)
            gate, up = (
                gate_up[:, : config.intermediate_size],
                gate_up[:, config.intermediate_size :],
            )
            y = silu(gate).mul_(up)
            output = layer.down(y)
            self._banks["down"].add(index, output, y)
            x = output.add_(x)

        last_rows = np.empty(len(chunks), dtype=np.int64)
        last_rows[order] = np.cumsum(counts) - 1
        wanted = last_rows[[chunk.needs_logits for chunk in chunks]]
        if not len(wanted):
            return np.empty((0, config.vocab_size), dtype=np.float32)
        x = rms_norm(x[torch.from_numpy(wanted).to(self._device)], hidden, weights.norm, eps)
        logits: NDArray[np.float32] = weights.head(x).float().cpu().numpy()
        return logits

    def _check_chunks(self, chunks: Sequence[SequenceChunk]) -> None:
        if not chunks:
            raise ValueError("a step needs at least one chunk")
        for chunk in chunks:
            end = chunk.start_position + len(chunk.token_ids)
            capacity = len(chunk.block_table) * self._limits.block_size
            limit = min(capacity, self._model.max_context_tokens)
            if not chunk.start_position < end <= limit:
                raise ValueError(
                    f"a chunk covers positions {chunk.start_position} to {end}, "
                    f"its blocks hold {capacity}, the context {self._model.max_context_tokens}"
                )
            for adapter in chunk.adapters:
                self._check_slot(adapter.slot)

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        """See Backend."""
        return sample_rows(logits, rows)

    def telemetry(self) -> BackendTelemetry:
        """See Backend."""
        return BackendTelemetry(
            weights_bytes=self._weights.num_bytes,
            kv_cache_bytes=self._cache.num_bytes,
            adapter_slots_bytes=sum(bank.num_bytes for bank in self._banks.values()),
        )
