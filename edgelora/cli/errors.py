"""Errors of the command itself."""

from __future__ import annotations


class CliError(Exception):
    """The command cannot do what was asked; the message is one line that says what to do."""
