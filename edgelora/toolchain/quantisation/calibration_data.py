"""The texts a model is calibrated on, as windows of tokens."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import jinja2
import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from torch import Tensor

from edgelora.toolchain.chat_data import Conversation, numbered
from edgelora.toolchain.data_text import decode_data, read_data_file
from edgelora.toolchain.demo_data import business_email, recipes, tutor
from edgelora.toolchain.errors import ToolchainError, refusing
from edgelora.toolchain.model_source import ModelSource, TokenizerFiles

_DEMOS = {"business_email": business_email, "recipes": recipes, "tutor": tutor}


@dataclass(frozen=True, slots=True)
class CalibrationText:
    """Where windows come from."""

    name: str
    """For the report: a file's name, or what the texts are."""
    sha256: str
    """Of the file's bytes, or of the texts."""
    token_ids: list[int]


def read_text(path: Path, model: ModelSource) -> CalibrationText:
    """Reads a calibration file: JSONL of conversations where its name says so, else text.

    Raises ToolchainError.
    """
    data = read_data_file(path)
    text = decode_data(data, path.name)
    if path.suffix == ".jsonl":
        text = _rendered([one for _, one in numbered(data, path.name)], model.tokenizer)
    return CalibrationText(path.name, hashlib.sha256(data).hexdigest(), encode(text, model))


def demo_text(model: ModelSource, seed: int) -> CalibrationText:
    """The training conversations of the demo adapters whose data need no further package."""
    built = [module.build(seed).train for module in _DEMOS.values()]
    # In turns, so that however few windows are drawn, all demos are among them.
    conversations = [one for group in zip(*built, strict=False) for one in group]
    text = json.dumps(conversations, ensure_ascii=False, sort_keys=True)
    return CalibrationText(
        f"demo conversations: {', '.join(_DEMOS)}",
        hashlib.sha256(text.encode()).hexdigest(),
        encode(_rendered(conversations, model.tokenizer), model),
    )


def encode(text: str, model: ModelSource) -> list[int]:
    """Tokens of a text, without any that the tokenizer adds."""
    with refusing("tokenizer.json cannot be read: copy it again"):
        tokenizer = Tokenizer.from_str(model.tokenizer.document)
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def cut(text: CalibrationText, count: int, tokens: int, generator: torch.Generator) -> Tensor:
    """Up to `count` windows without overlap, int64 [windows, tokens], drawn from the whole text.

    Raises ToolchainError for a text that is shorter than one window.
    """
    whole = len(text.token_ids) // tokens
    if not whole:
        raise ToolchainError(
            f"{text.name} has {len(text.token_ids)} tokens, a calibration input takes {tokens}: "
            "give more text"
        )
    windows = torch.tensor(text.token_ids[: whole * tokens]).view(whole, tokens)
    return windows[torch.randperm(whole, generator=generator)[:count]]


def _rendered(conversations: list[Conversation], tokenizer: TokenizerFiles) -> str:
    """Conversations one after the other, as the model's own template writes them."""
    if tokenizer.chat_template is None:
        return "\n\n".join(turn["content"] for one in conversations for turn in one)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    with refusing("the model's chat template cannot be used: calibrate with a text file"):
        template = environment.from_string(tokenizer.chat_template)
        names = {"bos_token": tokenizer.bos_token or "", "eos_token": tokenizer.eos_token}
        return "".join(template.render(messages=one, **names) for one in conversations)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
