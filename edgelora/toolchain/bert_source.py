"""Reads a BERT from a local Hugging Face directory, sentence-transformers ones among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgelora.toolchain.bert_shape import read_bert_shape
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.hf_files import (
    read_json,
    read_tokenizer_document,
    source_digest,
    token_text,
    tokenizer_vocabulary,
    weight_files,
)
from edgelora.toolchain.model_source import (
    EncoderSource,
    SourceTensor,
    TokenizerFiles,
    match_tensors,
)
from edgelora.toolchain.tensor_files import open_tensors

_PREFIX = "bert."
"""Of the encoder's tensors in a model that has a task's layers beside it."""
_TASK_LAYERS = ("cls.", "classifier.", "qa_outputs.")
_BUFFERS = frozenset({"embeddings.position_ids", "embeddings.token_type_ids"})
"""Whole numbers that old checkpoints store."""
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_POOLING_FILE = "1_Pooling/config.json"


def open_bert(directory: Path, config: dict[str, Any]) -> EncoderSource:
    """Opens a directory with safetensors, tokenizer.json and the config.json that was read.

    Checkpoints of BertModel and of models that add a task's layers to it, which are left out.
    Raises ToolchainError for what cannot be served.
    """
    files = weight_files(directory)
    stored: dict[str, SourceTensor] = {}
    for path in files:
        for name, tensor in open_tensors(path, spare=_is_buffer).items():
            if not name.startswith(_TASK_LAYERS):
                stored[_current_name(name)] = tensor
    shape = read_bert_shape(config, has_pooler="pooler.dense.weight" in stored)
    return EncoderSource(
        digest=source_digest([directory / "config.json", *files]),
        shape=shape,
        config=shape.config(),
        tokenizer=_read_tokenizer(directory, shape.vocab_size),
        pooling=_read_pooling(directory),
        tensors=match_tensors(shape, stored),
    )


def _is_buffer(name: str) -> bool:
    return name.removeprefix(_PREFIX) in _BUFFERS


def _current_name(name: str) -> str:
    name = name.removeprefix(_PREFIX)
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name


def _read_tokenizer(directory: Path, vocab_size: int) -> TokenizerFiles:
    document = read_tokenizer_document(directory)
    vocabulary = tokenizer_vocabulary(document, vocab_size)
    tokenizer = Tokenizer.from_str(document)
    # Texts run as long as they are, and without padding.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = read_json(directory / "tokenizer_config.json")
    tokens = {
        name: token_text(config.get(name))
        for name in ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
    }
    frame = []
    for name in ("cls_token", "sep_token"):
        token = tokens[name]
        if token is None or token not in vocabulary:
            raise ToolchainError(f"tokenizer_config.json: {name} is none of tokenizer.json")
        frame.append(tokenizer.token_to_id(token))
    if tokenizer.encode("").ids != frame:
        raise ToolchainError(
            "tokenizer.json does not put cls_token before a text and sep_token behind it: save the "
            "tokenizer again with save_pretrained"
        )
    return TokenizerFiles(
        document=tokenizer.to_str(),
        bos_token=None,
        eos_token=None,
        chat_template=None,
        **tokens,
    )


def _read_pooling(directory: Path) -> str:
    """How the model makes a text's vector; the mean, where it does not say."""
    path = directory / _POOLING_FILE
    if not path.is_file():
        return "mean"
    wanted = [
        name
        for name, value in read_json(path).items()
        if name.startswith("pooling_mode_") and value is True
    ]
    if len(wanted) != 1 or wanted[0] not in _POOLINGS:
        raise ToolchainError(
            f"{_POOLING_FILE} must name one of {', '.join(_POOLINGS)}: others are not served"
        )
    return _POOLINGS[wanted[0]]
