"""The matrix products of a decoder: what is multiplied together, and is of one kind."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgelora.toolchain.decoder_shape import DecoderShape

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
SITES = {
    "attention": ("q_proj", "k_proj", "v_proj"),
    "output": ("o_proj",),
    "feed_forward": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}
"""Places of a layer: name -> the linear modules that read the same input and are one product."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product."""

    name: str
    """For example `layers.3.attention`, `embedding` or `head`; a tied head is the embedding."""
    tensors: tuple[str, ...]
    """Hugging Face names of its matrices."""
    num_weights: int
    site: str
    """A key of `SITES`, `embedding` or `head`."""


def layer_products(shape: DecoderShape, layer: int) -> list[Product]:
    """The products of one layer, in the order of `SITES`."""
    sizes = shape.targets()
    return [
        Product(
            f"layers.{layer}.{site}",
            tuple(tensor_name(layer, module) for module in modules),
            sum(math.prod(sizes[module]) for module in modules),
            site,
        )
        for site, modules in SITES.items()
    ]


def all_products(shape: DecoderShape) -> list[Product]:
    """Embedding, layers, and the head where it is a matrix of its own."""
    size = shape.vocab_size * shape.hidden_size
    found = [Product("embedding", (EMBEDDING,), size, "embedding")]
    for layer in range(shape.num_layers):
        found += layer_products(shape, layer)
    if not shape.tied_embeddings:
        found.append(Product("head", (HEAD,), size, "head"))
    return found


def tensor_name(layer: int, module: str) -> str:
    """The Hugging Face name of a linear module's matrix."""
    block = "self_attn" if module in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
    return f"model.layers.{layer}.{block}.{module}.weight"
