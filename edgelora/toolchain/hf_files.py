"""The files of a Hugging Face directory, read as what may be damaged or lie."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgelora.toolchain.errors import ToolchainError, refusing
from services.chassis.base_model import file_digest


def source_digest(files: list[Path]) -> str:
    """The identity of a model: over the lines "NAME DIGEST" of its files, by name."""
    lines = sorted(f"{path.name} {file_digest(path)}\n" for path in files)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object. Raises ToolchainError when it is none, or cannot be read."""
    try:
        document = json.loads(read_text(path))
        # JSON can spell halves of characters, which no file can hold.
        json.dumps(document, ensure_ascii=False).encode()
    except ToolchainError:
        raise
    except (ValueError, RecursionError) as error:
        raise ToolchainError(f"{path.name} is not JSON: copy it again") from error
    if not isinstance(document, dict):
        raise ToolchainError(f"{path.name} is not a JSON object: copy it again")
    return document


def read_text(path: Path) -> str:
    """Reads a UTF-8 file. Raises ToolchainError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ToolchainError(
            f"{path.parent.name} has no {path.name}: copy the whole model"
        ) from error
    except OSError as error:
        raise ToolchainError(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolchainError(f"{path.name} is not UTF-8: copy it again") from error


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model. Raises ToolchainError when one is missing."""
    single = directory / "model.safetensors"
    if single.is_file():
        return [single]
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        raise ToolchainError(
            f"{directory.name} has no model.safetensors: save the model as safetensors "
            "(pickle files are never opened)"
        )
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ToolchainError(f"{index.name} has no weight_map: copy it again")
    # The index is data from elsewhere: it may not lead out of the directory.
    files = [directory / name for name in sorted({Path(str(p)).name for p in weight_map.values()})]
    for path in files:
        if not path.is_file():
            raise ToolchainError(f"{directory.name} lacks {path.name}: copy the whole model")
    return files


def token_text(value: Any) -> str | None:
    """The text of a special token of tokenizer_config.json, which may be an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def read_tokenizer_document(directory: Path) -> str:
    """The text of tokenizer.json. Raises ToolchainError when it cannot be read."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ToolchainError(f"{directory.name} has no tokenizer.json: save a fast tokenizer")
    return read_text(path)


def tokenizer_vocabulary(document: str, vocab_size: int) -> dict[str, int]:
    """Token -> id. Raises ToolchainError for a damaged tokenizer, or one of more tokens than
    `vocab_size`."""
    with refusing("tokenizer.json cannot be read: copy it again"):
        vocabulary: dict[str, int] = Tokenizer.from_str(document).get_vocab()
    # Ids may have gaps.
    num_tokens = max(vocabulary.values(), default=-1) + 1
    if num_tokens > vocab_size:
        raise ToolchainError(f"tokenizer.json has {num_tokens} tokens, the model only {vocab_size}")
    return vocabulary
