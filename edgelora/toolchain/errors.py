"""The one error of the toolchain: a line that names what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ToolchainError(ValueError):
    """Preparation or training cannot go on; the message is one line, fit for the terminal."""


class ModelExistsError(ToolchainError):
    """A prepared model of that name is there already and was not to be replaced."""


@contextmanager
def refusing(message: str) -> Iterator[None]:
    """Turns whatever a library raises on foreign data into a ToolchainError with this message.

    A panic in tokenizers, which is written in Rust, is no Exception.
    """
    try:
        yield
    except (ToolchainError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ToolchainError(message) from error
