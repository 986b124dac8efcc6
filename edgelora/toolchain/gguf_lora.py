"""Writes an adapter as llama.cpp reads it: the two factors of every module in a GGUF file.

Keys and names are those of llama.cpp's convert_lora_to_gguf.py.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from edgelora.adapter_format.architecture import DECODER
from edgelora.adapter_format.weights import AdapterWeights
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_source import LAYER_NAMES
from edgelora.toolchain.gguf_tensor import undo_rotary_order

_NAMES = {path: name for name, path in LAYER_NAMES.items()}
_LLAMA = "llama"


def write_gguf_lora(
    target: Path,
    weights: AdapterWeights,
    *,
    alpha: float,
    family: str,
    num_heads: int,
    num_kv_heads: int,
    half: bool = False,
) -> None:
    """Writes `target`; equal arguments make equal bytes.

    llama.cpp scales a product by `alpha` over the rank its factors have. Whatever else a module's
    scaling is goes into its lora_b. `family` and the heads are the base model's. Factors are in
    float32, or with `half` in float16, where llama.cpp rounds what they are multiplied with too.
    Raises ToolchainError when a number does not fit.
    """
    # llama.cpp takes an alpha of zero for one over the rank.
    if not 0 < np.float32(alpha) < np.inf:
        raise ToolchainError("lora_alpha does not fit into GGUF: train with another one")
    # To llama.cpp Mistral is a llama.
    architecture = _LLAMA if family == "mistral" else family
    heads = {"q_proj": num_heads, "k_proj": num_kv_heads} if architecture == _LLAMA else {}
    number = np.float16 if half else np.float32
    writer = gguf.GGUFWriter(target, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for (layer, module), pair in sorted(weights.pairs.items()):
        rank = pair.lora_a.shape[0]
        lora_b = pair.lora_b.astype(np.float64) * (pair.scaling * rank / alpha)
        if module in heads:
            order = undo_rotary_order(len(lora_b), heads[module])
            lora_b = lora_b[np.argsort(order)]
        name = f"blk.{layer}.{_NAMES[DECODER.modules[module]]}.weight"
        for end, values in (("lora_a", pair.lora_a), ("lora_b", lora_b)):
            with np.errstate(over="ignore"):
                stored = np.ascontiguousarray(values.astype(number))
            if not np.isfinite(stored).all():
                raise ToolchainError(
                    f"{name}.{end} does not fit into {stored.dtype}: "
                    + ("export without --half" if half else "train with a lower lora_alpha")
                )
            writer.add_tensor(f"{name}.{end}", stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
