"""A new API key: printed, or saved where --tenant finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgelora.cli.output import print_json
from edgelora.cli.places import layout_of, saved_key_file
from edgelora.local_stack.secrets import write_secret


def hand_over(
    document: dict[str, Any],
    api_key: str,
    *,
    tenant_id: str,
    home: Path,
    is_shown: bool,
    as_json: bool,
    done: str,
) -> None:
    """Gives the only copy of a key to the operator, with a document about it.

    `done`: what was done, for people. Raises CliError for an impossible tenant name.
    """
    path = saved_key_file(layout_of(home).keys, tenant_id)
    if is_shown:
        document = {**document, "api_key": api_key}
    else:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(path, api_key)
        document = {**document, "api_key_file": str(path)}
    if as_json:
        print_json(document)
    elif is_shown:
        click.echo(api_key)
    else:
        click.echo(f"{done}: its key is in {path}")
