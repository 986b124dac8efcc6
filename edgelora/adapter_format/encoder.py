"""Reading an encoder's adapter: LoRA factors as for a decoder, and a classifier."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgelora.adapter_format.architecture import ENCODER
from edgelora.adapter_format.assemble import Tensor, assemble, checked_tensor
from edgelora.adapter_format.config import AdapterConfig
from edgelora.adapter_format.config_parser import parse_adapter_config
from edgelora.adapter_format.head import FILE as HEAD_FILE
from edgelora.adapter_format.head import (
    MAX_LABELS,
    MIN_LABELS,
    ClassifierHead,
    HeadSettings,
    parse_head,
)
from edgelora.adapter_format.tensor_file import FILE, Buffer, read_tensors
from edgelora.adapter_format.weights import AdapterWeights
from edgelora.error_tree import AdapterIncompatibleError, AdapterRejectedError

# PEFT leaves out the wrapper's name; older releases did not.
CLASSIFIER = re.compile(
    r"base_model\.model\.(classifier|score)\.(?:modules_to_save\.(?:default\.)?)?(weight|bias)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderAdapter:
    """An encoder's adapter, checked."""

    config: AdapterConfig
    weights: AdapterWeights
    """Without any pair where the classifier alone was trained."""
    head: ClassifierHead | None
    """None: it changes the embeddings, and classifies nothing."""
    head_settings: HeadSettings | None
    """What its head.json says; None without the file."""
    num_tensors: int
    """In the file, every one of which is used."""


def read_encoder_adapter(
    config: bytes,
    weights: Buffer,
    head: bytes | None,
    *,
    targets: Mapping[str, tuple[int, int]],
    num_layers: int,
    hidden_size: int,
    max_rank: int,
) -> EncoderAdapter:
    """Reads the files of an adapter and checks them against an encoder.

    `config`, `weights` and `head` are the bytes of adapter_config.json, adapter_model.safetensors
    and head.json; None when there is no such file. The rest is as for `read_adapter`: the result
    shares no memory with `weights`, every tensor has to be used, and small files are judged first.

    Raises AdapterRejectedError for a malformed or unsupported adapter and
    AdapterIncompatibleError for one that belongs to another base model.
    """
    parsed = parse_adapter_config(config, max_rank=max_rank, architecture=ENCODER)
    settings = None if head is None else parse_head(head)
    if settings is not None and not parsed.saves_classifier:
        raise AdapterRejectedError(
            f"{HEAD_FILE} names the outputs of a classifier, but the adapter has none: remove it, "
            "or train with task_type SEQ_CLS",
            field="head",
        )
    factors, classifier = _split(read_tensors(weights))
    classifier_head = None
    if parsed.saves_classifier:
        classifier_head = _head(classifier, settings, hidden_size)
    elif classifier:
        raise _refuse(
            "holds a classifier, but the config does not save one: train with task_type SEQ_CLS"
        )
    pairs = assemble(
        parsed,
        factors,
        targets=targets,
        num_layers=num_layers,
        architecture=ENCODER,
        may_be_empty=classifier_head is not None,
    )
    return EncoderAdapter(
        config=parsed,
        weights=pairs,
        head=classifier_head,
        head_settings=settings,
        num_tensors=len(factors) + len(classifier),
    )


def _split(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The classifier's tensors apart, as `weight` and `bias`."""
    factors: dict[str, Tensor] = {}
    classifier: dict[str, Tensor] = {}
    module = None
    for name, tensor in tensors.items():
        match = CLASSIFIER.fullmatch(name)
        if match is None:
            factors[name] = tensor
            continue
        if match[2] in classifier or module not in (None, match[1]):
            raise _refuse("holds the classifier twice under different names")
        module = match[1]
        classifier[match[2]] = tensor
    return factors, classifier


def _head(
    tensors: Mapping[str, Tensor], settings: HeadSettings | None, hidden_size: int
) -> ClassifierHead:
    if "weight" not in tensors:
        raise _refuse(
            "lacks the classifier that the config saves: save the whole adapter with PEFT's "
            "save_pretrained"
        )
    weight = tensors["weight"]
    num_labels = weight.shape[0]
    if weight.ndim != 2 or weight.shape[1] != hidden_size:
        actual = "x".join(map(str, weight.shape))
        raise AdapterIncompatibleError(
            f"{FILE}: the classifier has the shape {actual}, the base model needs labels x "
            f"{hidden_size}",
            field="weights",
        )
    if not MIN_LABELS <= num_labels <= MAX_LABELS:
        raise _refuse(
            f"has a classifier of {num_labels} labels, served are {MIN_LABELS} to {MAX_LABELS}"
        )
    if not weight.any():
        raise _refuse("has a classifier that is all zeros: it would answer the same to every text")
    if settings is None:
        settings = HeadSettings.unnamed(num_labels)
    if len(settings.labels) != num_labels:
        raise AdapterRejectedError(
            f"{HEAD_FILE}: labels: there are {len(settings.labels)}, the classifier has "
            f"{num_labels} outputs: name each",
            field="head.labels",
        )
    bias = tensors.get("bias")
    return ClassifierHead(
        labels=settings.labels,
        pooling=settings.pooling,
        normalise=settings.normalise,
        out_of_scope=settings.out_of_scope,
        weight=checked_tensor(weight, "classifier.weight", (num_labels, hidden_size)),
        bias=np.zeros(num_labels, np.float32)
        if bias is None
        else checked_tensor(bias, "classifier.bias", (num_labels,)),
    )


def _refuse(why: str) -> AdapterRejectedError:
    return AdapterRejectedError(f"{FILE} {why}", field="weights")
