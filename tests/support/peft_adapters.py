"""Adapters made and judged by PEFT itself, on a very small random decoder or on the real model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from edgelora.adapter_format import AdapterWeights, read_adapter
from services.chassis.base_model import BaseModel, file_digest

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")
ALL_LINEAR = (*ATTENTION, *MLP)

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"r": 8, "lora_alpha": 16},
    "query and value only": {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]},
    "gate, up and down only": {"r": 8, "lora_alpha": 16, "target_modules": list(MLP)},
    "rslora 4": {"r": 4, "lora_alpha": 8, "use_rslora": True},
    "rslora 16": {"r": 16, "lora_alpha": 32, "use_rslora": True},
    "rslora 64": {"r": 64, "lora_alpha": 32, "use_rslora": True},
    "rank and alpha patterns": {
        "r": 8,
        "lora_alpha": 16,
        "rank_pattern": {"layers.0.self_attn.q_proj": 20, "down_proj": 3},
        "alpha_pattern": {"layers.1.mlp.up_proj": 5, "v_proj": 24},
    },
    "rank and alpha patterns, rslora": {
        "r": 4,
        "lora_alpha": 8,
        "use_rslora": True,
        "rank_pattern": {"k_proj": 17},
        "alpha_pattern": {"k_proj": 9},
    },
    "fan in fan out": {"r": 8, "lora_alpha": 16, "fan_in_fan_out": True},
    "one layer": {"r": 8, "lora_alpha": 16, "layers_to_transform": [1]},
}
"""LoraConfig arguments of every feature that the answers must agree on; all-linear by default."""


def save_tiny_decoder(
    directory: Path,
    *,
    context: int = 128,
    tied: bool = True,
    rope_scaling: dict[str, Any] | None = None,
) -> BaseModel:
    """Writes a prepared model: 3 layers, hidden 64, 4 heads over 2 key heads, vocabulary 256."""
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.15,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, **(rope_scaling or {})},
    )
    LlamaForCausalLM(config).eval().save_pretrained(directory)
    digest = file_digest(directory / "model.safetensors")
    model = BaseModel(
        name="tiny",
        digest=digest,
        family="llama",
        vocab_size=256,
        hidden_size=64,
        num_layers=3,
        max_context_tokens=context,
        targets={
            "q_proj": (64, 64),
            "k_proj": (32, 64),
            "v_proj": (32, 64),
            "o_proj": (64, 64),
            "gate_proj": (96, 64),
            "up_proj": (96, 64),
            "down_proj": (64, 96),
        },
        files={"model.safetensors": digest},
    )
    model.save(directory)
    return model


@contextmanager
def quiet() -> Iterator[None]:
    """Hides the warnings PEFT draws from the transformers release beside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@quiet()
def save_adapters(
    model_directory: Path, out: Path, configs: Sequence[dict[str, Any]], *, std: float = 0.1
) -> list[Path]:
    """Writes one PEFT adapter for each config with random, non-zero factors."""
    model: Any = _load(model_directory)
    directories = []
    for index, changes in enumerate(configs):
        torch.manual_seed(100 + index)
        arguments = {"target_modules": list(ALL_LINEAR), "task_type": "CAUSAL_LM", **changes}
        adapted: Any = get_peft_model(model, LoraConfig(**arguments))
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=std)
        directory = out / f"adapter-{index}"
        adapted.save_pretrained(str(directory))
        model = adapted.unload()
        if changes.get("fan_in_fan_out"):
            # PEFT writes what it did (the base is no Conv1D), not what was asked for.
            path = directory / "adapter_config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "fan_in_fan_out": True}))
        directories.append(directory)
    return directories


def read(directory: Path, model: BaseModel) -> AdapterWeights:
    """Reads an adapter as the product does."""
    _, weights = read_adapter(
        (directory / "adapter_config.json").read_bytes(),
        (directory / "adapter_model.safetensors").read_bytes(),
        targets=model.targets,
        num_layers=model.num_layers,
        max_rank=64,
    )
    return weights


class PeftReference:
    """transformers + PEFT with several adapters loaded, one of them active at a time."""

    @quiet()
    def __init__(self, model_directory: Path, adapters: Mapping[str, Path]) -> None:
        """`adapters`: names, which may be any text, and directories."""
        self._names = {kind: f"a{index}" for index, kind in enumerate(adapters)}
        self._model: Any = _load(model_directory)
        for kind, name in self._names.items():
            directory = str(adapters[kind])
            if isinstance(self._model, PeftModel):
                self._model.load_adapter(directory, adapter_name=name)
            else:
                self._model = PeftModel.from_pretrained(self._model, directory, adapter_name=name)
        self._model.eval()

    @quiet()
    @torch.inference_mode()
    def logits(self, kind: str | None, token_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Logits after every token, [tokens, vocabulary]; None is the base."""
        if kind is None:
            context = self._model.disable_adapter() if self._names else nullcontext()
        else:
            self._model.set_adapter(self._names[kind])
            context = nullcontext()
        with context:
            logits: NDArray[np.float32] = self._model(_batch(token_ids)).logits[0].numpy()
        return logits


def peft_logits(
    model_directory: Path, adapter: Path | None, token_ids: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Logits after every token, [tokens, vocabulary], of transformers with one PEFT adapter."""
    adapters = {} if adapter is None else {"only": adapter}
    return PeftReference(model_directory, adapters).logits(
        None if adapter is None else "only", token_ids
    )


@torch.inference_mode()
def merged_logits(
    model_directory: Path,
    parts: Sequence[tuple[AdapterWeights, float]],
    token_ids: NDArray[np.int32],
) -> NDArray[np.float32]:
    """The same of a base into which every part, times its weight, was added by hand."""
    model: Any = _load(model_directory)
    for weights, share in parts:
        for (layer, module), pair in weights.pairs.items():
            block = model.model.layers[layer]
            parent = block.self_attn if module in ATTENTION else block.mlp
            update = torch.from_numpy(pair.lora_b) @ torch.from_numpy(pair.lora_a)
            getattr(parent, module).weight += share * pair.scaling * update
    logits: NDArray[np.float32] = model(_batch(token_ids)).logits[0].numpy()
    return logits


def _batch(token_ids: NDArray[np.int32]) -> torch.Tensor:
    return torch.from_numpy(token_ids).long().unsqueeze(0)


def _load(directory: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(directory), dtype=torch.float32).eval()
