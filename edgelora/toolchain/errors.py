"""The one error of the toolchain: a line that names what is wrong and what to do."""

from __future__ import annotations


class ToolchainError(ValueError):
    """Preparation or training cannot go on; the message is one line, fit for the terminal."""


class ModelExistsError(ToolchainError):
    """A prepared model of that name is there already and was not to be replaced."""
