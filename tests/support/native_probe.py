"""Runs the native core on a tiny random model and saves what came out. A process of its own,
since the instruction set is chosen once, when the library is loaded:
`native_probe.py FOLDER KINDS`, KINDS being a key of `ROUNDINGS`.

Writes `weights.npz` (dequantised, Hugging Face names) and `logits.npz` into the given folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from edgelora_native import AdapterFactors, Chunk, Engine, Limits, NativeError
from edgelora_native.matrices import Matrix, quantise4, quantise8, quantise_symmetric, to_half
from edgelora_native.packing import Layer, ModelShape, write_packed

SHAPE = ModelShape(
    vocab_size=256,
    hidden_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_size=32,
    feed_forward_size=96,
    max_context_tokens=128,
    norm_epsilon=1e-5,
)
THETA = 10000.0
TARGETS = {
    "q_proj": (128, 64),
    "k_proj": (64, 64),
    "v_proj": (64, 64),
    "o_proj": (64, 128),
    "gate_proj": (96, 64),
    "up_proj": (96, 64),
    "down_proj": (64, 96),
}
_FIELDS = dict(zip(TARGETS, ("query", "key", "value", "output", "gate", "up", "down"), strict=True))


_BITS = {"o_proj": 4, "gate_proj": 5, "up_proj": 5}

ROUNDINGS: dict[str, Callable[[str, np.ndarray], Matrix]] = {
    "plain": lambda module, x: quantise8(x) if module == "head" else quantise4(x),
    "symmetric": lambda module, x: quantise_symmetric(x, _BITS.get(module, 6)),
    "half": lambda _, x: to_half(x),
}


def write_model(folder: Path, kinds: str, rng: np.random.Generator) -> Path:
    """Packs random weights and saves what they stand for."""
    rounded = ROUNDINGS[kinds]
    weights: dict[str, np.ndarray] = {}
    table = rng.normal(0, 0.5, (SHAPE.vocab_size, SHAPE.hidden_size)).astype(np.float32)
    head = rounded("head", table)
    weights["model.embed_tokens.weight"] = head.dequantise()
    weights["model.norm.weight"] = rng.uniform(0.5, 1.5, SHAPE.hidden_size).astype(np.float32)
    layers = []
    for number in range(SHAPE.num_layers):
        prefix = f"model.layers.{number}."
        norms = [rng.uniform(0.5, 1.5, SHAPE.hidden_size).astype(np.float32) for _ in range(2)]
        weights[prefix + "input_layernorm.weight"] = norms[0]
        weights[prefix + "post_attention_layernorm.weight"] = norms[1]
        matrices = {}
        for module, (rows, columns) in TARGETS.items():
            matrix = rounded(module, rng.normal(0, 0.15, (rows, columns)).astype(np.float32))
            parent = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
            weights[f"{prefix}{parent}.{module}.weight"] = matrix.dequantise()
            matrices[_FIELDS[module]] = matrix
        layers.append(Layer(attention_norm=norms[0], feed_forward_norm=norms[1], **matrices))
    steps = np.arange(0, SHAPE.head_size, 2, dtype=np.float32) / SHAPE.head_size
    path = folder / "model.edgelora"
    write_packed(
        path,
        SHAPE,
        head=head,
        final_norm=weights["model.norm.weight"],
        embedding=None,
        inverse_frequencies=(1.0 / THETA**steps).astype(np.float32),
        layers=layers,
    )
    np.savez(folder / "weights.npz", **weights)
    return path


def chunk(tokens, start, blocks, adapters=(), needs_logits=True) -> Chunk:
    """A chunk of a sequence whose KV blocks are `blocks`."""
    return Chunk(
        token_ids=np.asarray(tokens, dtype=np.int32),
        start_position=start,
        block_table=list(blocks),
        adapters=list(adapters),
        needs_logits=needs_logits,
    )


def refusals(engine: Engine) -> list[str]:
    """What the engine says to batches it can not run."""
    wrong = {
        "token": [chunk([256], 0, [0])],
        "negative token": [chunk([-1], 0, [0])],
        "short table": [chunk([1] * 17, 0, [0])],
        "unknown block": [chunk([1], 0, [64])],
        "context": [chunk([1], 128, range(9))],
        "no chunk": [],
        "empty slot": [chunk([1], 0, [0], [(2, 1.0)])],
        "unknown slot": [chunk([1], 0, [0], [(9, 1.0)])],
        "weight": [chunk([1], 0, [0], [(0, float("nan"))])],
        "step": [chunk([1] * 100, 0, range(7))],
    }
    said = []
    for name, batch in wrong.items():
        try:
            engine.forward(batch)
        except NativeError as error:
            said.append(f"{name}: {error}")
    assert len(said) == len(wrong), said
    return said


def main(folder: Path, kinds: str) -> None:
    """Runs one prompt alone, in company, in pieces, token by token, and with adapters."""
    rng = np.random.default_rng(7)
    limits = Limits(
        num_kv_blocks=64, max_loras=3, max_lora_rank=20, max_step_tokens=96, num_threads=2
    )
    engine = Engine(write_model(folder, kinds, rng), limits)
    for slot, rank in enumerate((5, 20)):
        engine.load_adapter(
            slot,
            [
                AdapterFactors(
                    layer,
                    module,
                    rng.normal(0, 0.1, (rank, columns)).astype(np.float32),
                    rng.normal(0, 0.1, (rows, rank)).astype(np.float32),
                    1.5,
                )
                for layer in range(SHAPE.num_layers)
                for module, (rows, columns) in TARGETS.items()
            ],
        )
    prompt = rng.integers(0, SHAPE.vocab_size, 37)
    two = [(0, 0.5), (1, 1.25)]
    results = {"prompt": prompt, "whole": engine.forward([chunk(prompt, 0, range(3))])}
    results["adapters"] = engine.forward([chunk(prompt, 0, range(3), two)])
    mixed = engine.forward(
        [
            chunk(prompt[:9], 0, range(3, 6), [(1, 1.0)]),
            chunk(prompt, 0, range(6, 9), two),
            chunk(prompt, 0, range(9, 12)),
        ]
    )
    results["mixed_adapters"], results["mixed_whole"] = mixed[1:2], mixed[2:3]
    engine.forward([chunk(prompt[:20], 0, range(12, 15), needs_logits=False)])
    results["chunked"] = engine.forward([chunk(prompt[20:], 20, range(12, 15))])
    for position, token in enumerate(prompt):
        results["one_by_one"] = engine.forward([chunk([token], position, range(15, 18))])
    engine.unload_adapter(0)
    engine.unload_adapter(1)
    results["unloaded"] = engine.forward([chunk(prompt, 0, range(3))])
    np.savez(folder / "logits.npz", **results)
    (folder / "refusals.txt").write_text("\n".join(refusals(engine)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
