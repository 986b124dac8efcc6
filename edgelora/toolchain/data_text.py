"""Data files: their bytes, their text, and what counts as a text in them."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from edgelora.toolchain.errors import ToolchainError


def read_data_file(path: Path) -> bytes:
    """The bytes of a data file. Raises ToolchainError when it can not be read.

    Whoever wants their hash too takes it of these: read a second time, a pipe is empty and a file
    may be another.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ToolchainError(f"data file {path.name!r} not found: check its path") from error
    except IsADirectoryError as error:
        raise ToolchainError(f"{path.name!r} is a directory: give a file") from error
    except OSError as error:
        raise ToolchainError(f"{path.name} can not be read: check its rights") from error


def decode_data(data: bytes, name: str) -> str:
    """The text of a data file of that name. Raises ToolchainError for what is no UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolchainError(f"{name} is not UTF-8 text: save it as UTF-8") from error


def is_text(value: object) -> TypeGuard[str]:
    """Whether a JSON value is text that can be learnt from: not empty, and of whole characters.

    JSON can spell half a character, a lone surrogate, which no encoding and no tokenizer takes.
    """
    if not isinstance(value, str) or not value.strip():
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
