"""An encoder with a classifying head, to be trained: what PEFT wraps for sequence classification.

The head works on the mean of a text's token vectors, scaled to length 1, as sentence encoders
compare texts; transformers' own BertForSequenceClassification works on the first token's. The
modules have the names that it has, so that what PEFT saves loads there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

# Nothing here may reach for a network: every file is local.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from peft import LoraConfig, get_peft_model
from transformers import BertForSequenceClassification
from transformers.utils import logging as transformers_logging

from edgelora.toolchain.classification.options import ClassificationOptions
from edgelora.toolchain.classification.word_rows import WordRows
from edgelora.toolchain.training_options import ALL_LINEAR

_ROWS = 128
"""Texts of one step where nothing is learnt."""
_MODULES = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")


class EncoderClassifier:
    """The model, and what of it is trained."""

    def __init__(
        self, directory: Path, num_outputs: int, options: ClassificationOptions, base_name: str
    ) -> None:
        """Loads the prepared encoder in `directory`; LoRA factors start as a no-op."""
        torch.manual_seed(options.seed)
        transformers_logging.disable_progress_bar()
        with _quiet_transformers():
            model: Any = BertForSequenceClassification.from_pretrained(
                directory,
                num_labels=num_outputs,
                local_files_only=True,
                # The fused kernel takes longer to go back over short texts than all the rest.
                attn_implementation="eager",
                attention_probs_dropout_prob=0.0,
                hidden_dropout_prob=options.dropout,
            )
        inner = model
        if options.method != "full":
            model = _with_lora(model, options, base_name)
        if options.method == "probe":
            # Left at no-op: PEFT knows no adapter without a factor.
            for name, parameter in model.named_parameters():
                parameter.requires_grad_("modules_to_save" in name)
        self.method = options.method
        self.wrapped = model
        """What is saved."""
        self._bert = inner.bert
        self.head = inner.classifier
        """The head as a module: vectors to logits."""
        # The pooler sees no text here.
        self._bert.pooler.requires_grad_(False)
        self._autocasts = torch.cpu._is_avx512_bf16_supported()

    @property
    def head_layer(self) -> torch.nn.Linear:
        """The weights of the head."""
        if isinstance(self.head, torch.nn.Linear):
            return self.head
        layer: torch.nn.Linear = self.head.modules_to_save["default"]
        return layer

    @property
    def encoder_parameters(self) -> dict[str, torch.nn.Parameter]:
        """What is trained besides the head, by name."""
        of_head = {id(parameter) for parameter in self.head.parameters()}
        return {
            name: parameter
            for name, parameter in self.wrapped.named_parameters()
            if parameter.requires_grad and id(parameter) not in of_head
        }

    @property
    def precision(self) -> str:
        """Of the products while training."""
        return "bfloat16" if self._autocasts else "float32"

    def start_training(self, texts: Sequence[NDArray[np.int32]]) -> None:
        """Makes ready to be trained on these texts."""
        if self.method == "full":
            embeddings = self._bert.embeddings
            embeddings.word_embeddings = WordRows(embeddings.word_embeddings, texts)

    def end_training(self) -> None:
        """Leaves the model as it is saved."""
        if self.method == "full":
            embeddings = self._bert.embeddings
            embeddings.word_embeddings = embeddings.word_embeddings.whole()

    def train(self) -> None:
        """With dropout."""
        self.wrapped.train()

    def vectors(self, texts: Sequence[NDArray[np.int32]], *, exact: bool = False) -> Tensor:
        """Pooled vectors of length 1, [texts, hidden_size], of lists of token ids.

        `exact`: in float32 even where bfloat16 is faster.
        """
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        mask = np.zeros((len(texts), longest), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        attention = torch.from_numpy(mask)
        with torch.autocast("cpu", torch.bfloat16, enabled=self._autocasts and not exact):
            hidden = self._bert(
                input_ids=torch.from_numpy(ids),
                # Without padding no mask has to be added.
                attention_mask=None if mask.all() else attention,
            ).last_hidden_state
        weights = attention.unsqueeze(-1).float()
        return functional.normalize((hidden.float() * weights).sum(1) / weights.sum(1), dim=-1)

    @torch.inference_mode()
    def encode(self, texts: Sequence[NDArray[np.int32]], *, exact: bool = False) -> Tensor:
        """`vectors` of any number of texts, without dropout, nothing learnt."""
        self.wrapped.eval()
        order = np.argsort([len(text) for text in texts], kind="stable")
        pieces = [order[start : start + _ROWS] for start in range(0, len(order), _ROWS)]
        rows = torch.cat([self.vectors([texts[i] for i in piece], exact=exact) for piece in pieces])
        return rows[torch.from_numpy(np.argsort(order, kind="stable"))]

    @torch.inference_mode()
    def logits(self, texts: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """What the classifier says in float32, [texts, outputs]."""
        logits: NDArray[np.float32] = self.head_layer(self.encode(texts, exact=True)).numpy()
        return logits


def _with_lora(model: Any, options: ClassificationOptions, base_name: str) -> Any:
    targets = _MODULES if options.targets == (ALL_LINEAR,) else options.targets
    config = LoraConfig(
        task_type="SEQ_CLS",
        r=options.r,
        lora_alpha=options.alpha,
        target_modules=list(targets),
    )
    with warnings.catch_warnings():
        # PEFT 0.21 still asks transformers 5 by the older name; nothing for users to act upon.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        wrapped = get_peft_model(model, config)
    # A path of this machine would mean nothing, and tell too much, elsewhere.
    wrapped.peft_config["default"].base_model_name_or_path = base_name
    return wrapped


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """It reports that the encoder came without a classifier, which is why one is trained."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
