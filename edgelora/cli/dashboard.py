"""`edgelora dashboard`: where the dashboard is, and what opens it."""

from __future__ import annotations

from pathlib import Path

import click

from edgelora.cli.errors import CliError
from edgelora.cli.output import output_console, print_json
from edgelora.cli.places import home_option, json_option, layout_of, running_state


@click.command()
@click.option("--show-key", is_flag=True, help="Print the operator's key too, which opens it.")
@home_option
@json_option
def dashboard(show_key: bool, home: Path, as_json: bool) -> None:
    """Print the address of the dashboard.

    \b
    Examples:
      edgelora dashboard
      edgelora dashboard --show-key
    """
    state = running_state(home)
    url = f"{state.http_scheme}://{state.dashboard_address}"
    key_file = layout_of(home).operator_key_file
    key = _read(key_file) if show_key else None
    if as_json:
        print_json({"url": url, "key_file": str(key_file), **({"key": key} if key else {})})
        return
    console = output_console()
    console.print(f"dashboard  {url}", soft_wrap=True)
    console.print(f"key        {key or key_file}", soft_wrap=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise CliError(f"there is no key {path}: start the stack with `edgelora up`") from None
