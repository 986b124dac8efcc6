"""Turns an adapter in PEFT's format into GGUF, as llama.cpp's convert_lora_to_gguf.py does."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def write_gguf_adapter(source: Path, target: Path, *, num_heads: int, num_kv_heads: int) -> Path:
    """Writes `target` from a PEFT directory of a llama-type decoder and returns it."""
    config = json.loads((source / "adapter_config.json").read_text(encoding="utf-8"))
    heads = {"q_proj": num_heads, "k_proj": num_kv_heads}
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(config["lora_alpha"]))
    for name, tensor in load_file(source / "adapter_model.safetensors").items():
        # base_model.model.model.layers.<layer>.<parent>.<module>.<lora_A or lora_B>.weight
        layer, _, module, factor, _ = name.split(".")[4:]
        if factor == "lora_B" and module in heads:
            tensor = _rotary_order(tensor, heads[module])
        writer.add_tensor(f"blk.{layer}.{_NAMES[module]}.weight.{factor.lower()}", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _rotary_order(rows: NDArray[np.float16], heads: int) -> NDArray[np.float16]:
    """From Hugging Face's order of a head's rows (halves) to GGUF's (pairs side by side)."""
    pairs = rows.shape[0] // heads // 2
    swapped = rows.reshape(heads, 2, pairs, -1).swapaxes(1, 2)
    return np.ascontiguousarray(swapped.reshape(rows.shape))
