"""The one error of the launcher: a line that names what is wrong and what to do."""

from __future__ import annotations


class StackError(Exception):
    """The stack cannot start or go on; the message is fit for the terminal."""
