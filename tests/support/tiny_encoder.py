"""A very small BERT with random weights, prepared or not, and adapters for it.

Its files are written without any library but that of the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from edgelora.toolchain.prepare import prepare
from services.chassis.base_model import FLOAT32_FILE, BaseModel, file_digest
from tests.support.adapter_files import AdapterFiles, Tensors, safetensors_bytes

HIDDEN, INTERMEDIATE, LAYERS, HEADS, CONTEXT = 64, 128, 2, 2, 64
TARGETS: dict[str, tuple[int, int]] = {
    "query": (HIDDEN, HIDDEN),
    "key": (HIDDEN, HIDDEN),
    "value": (HIDDEN, HIDDEN),
    "attention.output.dense": (HIDDEN, HIDDEN),
    "intermediate.dense": (INTERMEDIATE, HIDDEN),
    "output.dense": (HIDDEN, INTERMEDIATE),
}
_TEXT = (
    "please tell me about the weather in my town what is a good way to pay bill move money from "
    "one account another book flight table for two tonight how much do i owe now play some song "
    "louder turn light off kitchen set alarm seven tomorrow morning who are you where can we eat"
)
WORDS = tuple(_TEXT.split())
"""What the tokenizer knows as whole words."""


def module_path(layer: int, module: str) -> str:
    """The path of a module inside the base model."""
    inside = f"attention.self.{module}" if "." not in module else module
    return f"encoder.layer.{layer}.{inside}"


def tiny_tokenizer() -> Tokenizer:
    """WordPiece over WORDS and single characters, with BERT's special tokens."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(ord("!"), 127) if not chr(code).isupper()]
    pieces = [*specials, *letters, *(f"##{letter}" for letter in letters if letter.isalnum())]
    words = [word for word in dict.fromkeys(WORDS) if len(word) > 1]
    vocabulary = {token: index for index, token in enumerate([*pieces, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(specials)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    # As sentence-transformers ships them: neither may reach the encoder.
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    return tokenizer


def tiny_config(vocab_size: int) -> dict[str, Any]:
    """The config.json, as Hugging Face has it."""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INTERMEDIATE,
        "hidden_act": "gelu",
        "max_position_embeddings": CONTEXT,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }


def tiny_weights(vocab_size: int, seed: int = 7) -> Tensors:
    """Random weights under transformers' names, strong enough for texts to differ."""
    rng = np.random.default_rng(seed)

    def random(*shape: int, scale: float) -> Any:
        return (rng.standard_normal(shape) * scale).astype("<f4")

    weights: Tensors = {}
    for kind, rows in (("word", vocab_size), ("position", CONTEXT), ("token_type", 2)):
        weights[f"embeddings.{kind}_embeddings.weight"] = random(rows, HIDDEN, scale=0.5)

    def add_norm(name: str) -> None:
        weights[f"{name}.weight"] = 1 + random(HIDDEN, scale=0.1)
        weights[f"{name}.bias"] = random(HIDDEN, scale=0.1)

    def add_linear(name: str, rows: int, columns: int) -> None:
        weights[f"{name}.weight"] = random(rows, columns, scale=columns**-0.5)
        weights[f"{name}.bias"] = random(rows, scale=0.1)

    add_norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        for module, shape in TARGETS.items():
            add_linear(module_path(layer, module), *shape)
        add_norm(f"encoder.layer.{layer}.attention.output.LayerNorm")
        add_norm(f"encoder.layer.{layer}.output.LayerNorm")
    add_linear("pooler.dense", HIDDEN, HIDDEN)
    return weights


def save_tiny_source(directory: Path) -> int:
    """Writes it as a Hugging Face directory; returns the size of its vocabulary."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    vocab_size: int = tokenizer.get_vocab_size()
    tokenizer.save(str(directory / "tokenizer.json"))
    tokens = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokens))
    (directory / "config.json").write_text(json.dumps(tiny_config(vocab_size)))
    (directory / FLOAT32_FILE).write_bytes(safetensors_bytes(tiny_weights(vocab_size)))
    return vocab_size


def save_tiny_encoder(directory: Path) -> BaseModel:
    """Writes it as a prepared encoder in float32; returns its description."""
    vocab_size = save_tiny_source(directory)
    digest = file_digest(directory / FLOAT32_FILE)
    model = BaseModel(
        name="tiny-encoder",
        digest=digest,
        family="bert",
        vocab_size=vocab_size,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        max_context_tokens=CONTEXT,
        targets=TARGETS,
        files={FLOAT32_FILE: digest},
        pooling="mean",
    )
    model.save(directory)
    return model


def prepare_tiny_encoder(home: Path) -> Path:
    """Prepares it in every form this machine can use; returns its directory."""
    save_tiny_source(home / "source")
    weights = "both" if find_spec("edgelora_native") else "float32"
    prepare(home / "source", home, "tiny-encoder", weights=weights)
    return home / "models" / "tiny-encoder"


def encoder_tensors(
    modules: Sequence[str] = ("query", "value"),
    *,
    rank: int = 4,
    seed: int = 0,
    scale: float = 0.3,
    num_labels: int = 0,
) -> Tensors:
    """Random factors for modules of every layer, and a classifier where labels are wanted."""
    rng = np.random.default_rng(seed)
    made: Tensors = {}
    for layer in range(LAYERS):
        for module in modules:
            outputs, inputs = TARGETS[module]
            for factor, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
                name = f"base_model.model.{module_path(layer, module)}.lora_{factor}.weight"
                made[name] = (rng.standard_normal(shape) * scale).astype("<f4")
    if num_labels:
        weight = rng.standard_normal((num_labels, HIDDEN)).astype("<f4")
        made["base_model.model.classifier.weight"] = weight
        made["base_model.model.classifier.bias"] = rng.standard_normal(num_labels).astype("<f4")
    return made


def encoder_config(modules: Sequence[str] = ("query", "value"), **changes: Any) -> bytes:
    """A PEFT configuration; a change of value `...` removes the key."""
    document: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": list(modules),
        "modules_to_save": ["classifier", "score"],
        "bias": "none",
    }
    document.update(changes)
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


def head_bytes(labels: Sequence[str], **changes: Any) -> bytes:
    """A head.json."""
    document: dict[str, Any] = {
        "labels": list(labels),
        "pooling": "mean",
        "normalise": True,
        "out_of_scope": None,
    }
    return json.dumps({**document, **changes}).encode()


def classifier_files(
    labels: Sequence[str], seed: int = 0, *, card: bytes = b"", **changes: Any
) -> AdapterFiles:
    """An adapter with a classifier and its head.json; `changes` are of the head."""
    named = encoder_tensors(seed=seed, num_labels=len(labels))
    head = head_bytes(labels, **changes)
    return AdapterFiles(encoder_config(), safetensors_bytes(named), card, head)


def embedding_files(seed: int = 0) -> AdapterFiles:
    """An adapter that changes the embeddings alone."""
    config = encoder_config(task_type="FEATURE_EXTRACTION", modules_to_save=None)
    return AdapterFiles(config, safetensors_bytes(encoder_tensors(seed=seed)))
