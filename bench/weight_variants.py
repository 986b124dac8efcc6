"""Two models with weights off every 4-bit grid, to judge quantisers by.

The default model's public source is a 4-bit file, which a 4-bit form holds exactly. `rotate` writes
the same function in other numbers: the norms are folded into the matrices behind them and the
residual stream is turned by a random orthogonal matrix (QuaRot, arXiv 2404.00456). The final norm
is folded into the head, which therefore is no longer the embedding. `fine_tune` writes another
function nearby: the model after some steps of full fine-tuning on a text.

    python -m bench.weight_variants rotate SOURCE TARGET
    python -m bench.weight_variants fine-tune SOURCE TARGET --text valid.txt

SOURCE is a Hugging Face directory or a prepared model with fp32 weights; TARGET becomes one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.result import BenchError
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.published_directory import published_directory
from edgelora.toolchain.tensor_files import write_float32

Floats = NDArray[np.float32]

_READS_RESIDUAL = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_WRITES_RESIDUAL = ("o_proj", "down_proj")


def rotate(source: Path, target: Path, *, seed: int = 0) -> None:
    """Writes the same function with norms folded and the residual stream rotated.

    Computed in double precision, stored as fp32.
    """
    model = _open(source)
    size = model.shape.hidden_size
    drawn = np.random.default_rng(seed).standard_normal((size, size))
    q, r = np.linalg.qr(drawn)
    rotation = q * np.sign(np.diag(r))  # uniform over all rotations and reflections
    shapes = {**model.shape.tensors(), "lm_head.weight": (model.shape.vocab_size, size)}
    _write(model, target, shapes, _rotated(model, rotation, list(shapes)), tied=False)


def _rotated(
    model: ModelSource, rotation: NDArray[np.float64], names: list[str]
) -> Iterator[tuple[str, Floats]]:
    def read(name: str) -> NDArray[np.float64]:
        return model.tensors[name].float32().astype(np.float64)

    for name in names:
        prefix, _, end = name.partition("self_attn." if "self_attn" in name else "mlp.")
        if name == "lm_head.weight":
            stored = "model.embed_tokens.weight" if model.shape.tied_embeddings else name
            values = read(stored) * read("model.norm.weight") @ rotation
        elif name == "model.embed_tokens.weight":
            values = read(name) @ rotation
        elif end.removesuffix(".weight") in _READS_RESIDUAL:
            norm = "input" if "self_attn" in name else "post_attention"
            values = read(name) * read(f"{prefix}{norm}_layernorm.weight") @ rotation
        elif end.removesuffix(".weight") in _WRITES_RESIDUAL:
            values = rotation.T @ read(name)
        elif name.endswith(("layernorm.weight", "model.norm.weight")):
            values = np.ones_like(read(name))
        else:
            values = read(name)  # biases of q, k, v and norms of heads lie behind the rotation
        yield name, values.astype(np.float32)


def fine_tune(
    source: Path,
    target: Path,
    text: Path,
    *,
    steps: int = 300,
    window_tokens: int = 128,
    learning_rate: float = 1e-4,
    seed: int = 0,
) -> list[float]:
    """Writes `source` after `steps` of AdamW on windows of `text`; returns each step's loss."""
    # Only here: rotation needs neither.
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = _open(source)
    network = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    tokenizer = Tokenizer.from_str(model.tokenizer.document)
    ids = tokenizer.encode(text.read_text(encoding="utf-8"), add_special_tokens=False).ids
    windows = torch.tensor(ids[: len(ids) // window_tokens * window_tokens]).view(-1, window_tokens)
    order = torch.randperm(len(windows))
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=0.0)
    network.train()
    losses = []
    with progress_bar("Fine-tuning", steps) as bar:
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            window = windows[order[step % len(order)]][None]
            with torch.autocast("cpu", torch.bfloat16):
                loss = network(input_ids=window, labels=window, use_cache=False).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            losses.append(float(loss.detach()))
            bar.advance(1, f"loss {losses[-1]:.3f}")
    trained = network.state_dict()
    shapes = model.shape.tensors()
    _write(
        model,
        target,
        shapes,
        ((name, trained[name].numpy()) for name in shapes),
        tied=model.shape.tied_embeddings,
    )
    return losses


def _open(directory: Path) -> ModelSource:
    model = open_directory(directory)
    if not isinstance(model, ModelSource):
        raise BenchError(f"{directory.name} is no decoder: give one")
    return model


def _write(
    model: ModelSource,
    target: Path,
    shapes: dict[str, tuple[int, ...]],
    tensors: Iterator[tuple[str, Floats]],
    *,
    tied: bool,
) -> None:
    count = sum(math.prod(shape) for shape in shapes.values())
    with published_directory(target) as directory:
        config = {**model.config, "tie_word_embeddings": tied}
        (directory / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        tokens = model.tokenizer
        (directory / "tokenizer.json").write_text(tokens.document, encoding="utf-8")
        special = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens.bos_token,
            "eos_token": tokens.eos_token,
            "pad_token": tokens.pad_token,
            "unk_token": tokens.unk_token,
            "chat_template": tokens.chat_template,
            "clean_up_tokenization_spaces": False,
        }
        (directory / "tokenizer_config.json").write_text(
            json.dumps({key: value for key, value in special.items() if value is not None}),
            encoding="utf-8",
        )
        with progress_bar(f"Writing {target.name}", count) as bar:
            write_float32(directory / "model.safetensors", shapes, tensors, bar)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=("rotate", "fine-tune"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--text", type=Path, help="Text to fine-tune on.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.variant == "rotate":
        rotate(arguments.source, arguments.target, seed=arguments.seed)
    elif arguments.text is None:
        parser.error("fine-tune needs --text")
    else:
        fine_tune(
            arguments.source,
            arguments.target,
            arguments.text,
            steps=arguments.steps,
            seed=arguments.seed,
        )


if __name__ == "__main__":
    main()
