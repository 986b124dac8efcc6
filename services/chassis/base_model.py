"""The description of a prepared base model, written beside its weights.

`edgelora model prepare` writes it; the inference worker and the adapter store read it. It is all
the store needs to know of a model to verify an adapter, so the store needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE_NAME = "edgelora_model.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """What a prepared model is, without its weights."""

    name: str
    """The public name, for example `smollm2-135m-instruct`."""
    digest: str
    """`sha256:` and 64 hex digits over the weights file: the identity adapters are bound to."""
    family: str
    """Decoder family, for example `llama`."""
    vocab_size: int
    hidden_size: int
    num_layers: int
    max_context_tokens: int
    """Most tokens (prompt and output together) one sequence may hold."""
    targets: dict[str, tuple[int, int]]
    """Linear modules of every layer that LoRA may adapt: name -> (out_features, in_features)."""

    @classmethod
    def load(cls, directory: Path) -> BaseModel:
        """Reads the description from a prepared model directory.

        Raises FileNotFoundError when the directory was not prepared, ValueError when the file was
        written by another format version.
        """
        document = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
        version = document.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{FILE_NAME} has format version {version}, this release reads {FORMAT_VERSION}: "
                "run `edgelora model prepare` again"
            )
        targets = {name: (shape[0], shape[1]) for name, shape in document.pop("targets").items()}
        return cls(targets=targets, **document)

    def save(self, directory: Path) -> None:
        """Writes the description into a prepared model directory."""
        document = {"format_version": FORMAT_VERSION, **asdict(self)}
        text = json.dumps(document, indent=2, sort_keys=True) + "\n"
        (directory / FILE_NAME).write_text(text, encoding="utf-8")
