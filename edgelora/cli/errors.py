"""Errors of the command itself, and its words for those of the node."""

from __future__ import annotations


class CliError(Exception):
    """The command cannot do what was asked; the message is one line that says what to do."""


def message_of(error: Exception) -> str:
    """Returns what one of our errors says, in words for a person at a shell."""
    from edgelora.errors import UnauthenticatedError

    if isinstance(error, UnauthenticatedError):
        return (
            "the API key is wrong, ended or revoked: `edgelora tenants keys list NAME` shows the "
            "tenant's keys, `edgelora tenants keys add NAME` makes another"
        )
    return str(error)
