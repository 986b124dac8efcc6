"""What a served encoder consists of: its numbers, its tensors and their Hugging Face names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgelora.toolchain.decoder_shape import is_count
from edgelora.toolchain.errors import ToolchainError

FAMILY = "bert"
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
}
"""Served values of `hidden_act`, and the one of those that compute the same."""
_MOST = {
    "vocab_size": 2**20,
    "hidden_size": 2**14,
    "intermediate_size": 2**16,
    "num_layers": 1024,
    "num_heads": 1024,
    "max_context_tokens": 2**16,
    "type_vocab_size": 2**10,
}
"""The largest sizes that a packed file may have (services/inference/native)."""
_LEAST_CONTEXT = 3
"""Tokens: what stands around a text, and one of the text."""
_MOST_EPSILON = 1.0
_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_context_tokens": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
}
"""Our names of the sizes, and those of a config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    """The numbers that define a BERT (Devlin et al., arXiv 1810.04805)."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    max_context_tokens: int
    type_vocab_size: int
    activation: str
    """`gelu`, or `gelu_new` for its approximation by tanh."""
    layer_norm_eps: float
    has_pooler: bool

    def __post_init__(self) -> None:
        """Raises ToolchainError for numbers that no encoder has."""
        for name, most in _MOST.items():
            size = getattr(self, name)
            if not is_count(size) or not 1 <= size <= most:
                raise ToolchainError(
                    f"the model's {name} is out of range: whole numbers from 1 to {most} are served"
                )
        if self.max_context_tokens < _LEAST_CONTEXT:
            raise ToolchainError("the model's context has no room for a text")
        if self.hidden_size % self.num_heads:
            raise ToolchainError("the model's sizes do not fit together: copy it again")
        if not 0 < self.layer_norm_eps <= _MOST_EPSILON:
            raise ToolchainError("the model's norm epsilon is not a positive number")

    @property
    def family(self) -> str:
        """What `BaseModel.family` says."""
        return FAMILY

    def targets(self) -> dict[str, tuple[int, int]]:
        """Linear modules of every layer: name -> (out_features, in_features)."""
        hidden, inner = self.hidden_size, self.intermediate_size
        return {
            "query": (hidden, hidden),
            "key": (hidden, hidden),
            "value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden),
            "output.dense": (hidden, inner),
        }

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of transformers' BertModel in file order: name -> shape."""
        hidden = self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (self.vocab_size, hidden),
            "embeddings.position_embeddings.weight": (self.max_context_tokens, hidden),
            "embeddings.token_type_embeddings.weight": (self.type_vocab_size, hidden),
        }

        def add(name: str, *shape: int) -> None:
            shapes[f"{name}.weight"] = shape
            shapes[f"{name}.bias"] = shape[:1]

        add("embeddings.LayerNorm", hidden)
        for layer in range(self.num_layers):
            for module, shape in self.targets().items():
                add(module_name(layer, module), *shape)
                if module in ("attention.output.dense", "output.dense"):
                    add(module_name(layer, module).replace("dense", "LayerNorm"), hidden)
        if self.has_pooler:
            add("pooler.dense", hidden, hidden)
        return shapes

    def config(self) -> dict[str, object]:
        """The `config.json` of the prepared directory, as transformers reads it."""
        return {
            "architectures": ["BertModel"],
            "model_type": FAMILY,
            **{theirs: getattr(self, ours) for ours, theirs in _SIZES.items()},
            "hidden_act": self.activation,
            "layer_norm_eps": self.layer_norm_eps,
            "position_embedding_type": "absolute",
            "torch_dtype": "float32",
        }


def module_name(layer: int, module: str) -> str:
    """The Hugging Face name of a linear module of a layer."""
    inside = module if "." in module else f"attention.self.{module}"
    return f"encoder.layer.{layer}.{inside}"


def read_bert_shape(config: dict[str, Any], *, has_pooler: bool) -> BertShape:
    """Reads the numbers of a config.json. Raises ToolchainError for what is not served."""
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ToolchainError("config.json: position_embedding_type must be 'absolute'")
    if config.get("is_decoder", False) or config.get("add_cross_attention", False):
        raise ToolchainError("the model is a BERT that decodes: not supported")
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ToolchainError(f"config.json: hidden_act must be one of {', '.join(ACTIVATIONS)}")
    eps = config.get("layer_norm_eps", 1e-12)
    # Compared before float(): a JSON integer may be too large for one.
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps <= _MOST_EPSILON:
        raise ToolchainError("config.json: layer_norm_eps is not a number from 0 to 1")
    for theirs in _SIZES.values():
        if theirs not in config:
            raise ToolchainError(f"config.json lacks {theirs!r}")
    return BertShape(
        **{ours: config[theirs] for ours, theirs in _SIZES.items()},
        activation=ACTIVATIONS[activation],
        layer_norm_eps=float(eps),
        has_pooler=has_pooler,
    )
