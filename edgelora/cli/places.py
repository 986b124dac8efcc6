"""Where commands find a home, a running stack and an API key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgelora.cli.errors import CliError
from edgelora.local_stack.layout import StackLayout
from edgelora.local_stack.state_file import StackState, load_state

HOME_VARIABLE = "EDGELORA_HOME"
KEY_VARIABLE = "EDGELORA_API_KEY"
ADDRESS_VARIABLE = "EDGELORA_ADDRESS"
CA_FILE_VARIABLE = "EDGELORA_CA_FILE"
DEFAULT_HOME = Path(".edgelora")
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,64}")

if TYPE_CHECKING:
    from edgelora.client import EdgeLoraClient

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Who calls whom."""

    address: str
    api_key: str | None
    """None where a certificate says who calls."""
    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None

    def client(self) -> EdgeLoraClient:
        """A client of this node for this caller. Raises InvalidRequestError for a bad file."""
        from edgelora.client import EdgeLoraClient  # gRPC takes a while, and --help needs none

        return EdgeLoraClient(
            self.address,
            self.api_key,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
        )


def home_option(command: CommandT) -> CommandT:
    """Adds --home."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=HOME_VARIABLE,
        default=DEFAULT_HOME,
        show_default=True,
        help=f"Where models, adapters and keys are kept (or {HOME_VARIABLE}).",
    )(command)


def json_option(command: CommandT) -> CommandT:
    """Adds --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def connection_options(command: CommandT) -> CommandT:
    """Adds --home, --address, --tenant, --api-key-file and the files of TLS."""
    for name, meaning in (
        ("key", "File with the private key of --cert-file"),
        ("cert", "File with a client certificate, which may stand for the API key"),
        ("ca", "File with who signs the node's certificate; without it no TLS is spoken"),
    ):
        variable = f"EDGELORA_{name.upper()}_FILE"
        command = click.option(
            f"--{name}-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar=variable,
            help=f"{meaning} (or {variable}).",
        )(command)
    command = click.option(
        "--api-key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"File with the API key (or the key itself in {KEY_VARIABLE}).",
    )(command)
    command = click.option(
        "--tenant", help="Use the key saved in HOME/keys for this tenant, for example office."
    )(command)
    command = click.option(
        "--address",
        envvar=ADDRESS_VARIABLE,
        help=f"Gateway, host:port (or {ADDRESS_VARIABLE}). Default: the stack of --home.",
    )(command)
    return home_option(command)


def admin_options(command: CommandT) -> CommandT:
    """Adds --admin-address, --home and --json."""
    command = click.option(
        "--admin-address", help="Admin socket, unix:/path. Default: the stack of --home."
    )(command)
    return home_option(json_option(command))


def admin_target(admin_address: str | None, home: Path) -> str:
    """Works out the admin socket from the options of `admin_options`."""
    return admin_address or running_state(home).admin_address


def layout_of(home: Path) -> StackLayout:
    """Returns the paths of a home."""
    return StackLayout.of(home, os.environ)


def running_state(home: Path) -> StackState:
    """Returns where the stack of a home is reached. Raises CliError when none is ready."""
    state = load_state(layout_of(home).state_file)
    if state is None or not state.is_alive():
        raise CliError(
            f"no stack is running in {home}: start one with `edgelora up`, or choose another --home"
        )
    if not state.is_ready:
        raise CliError(f"the stack in {home} is still starting: try again in a moment")
    return state


def connection(
    *,
    home: Path,
    address: str | None,
    tenant: str | None,
    api_key_file: Path | None,
    ca_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
) -> Connection:
    """Works out the gateway and the key from the options of `connection_options`."""
    return Connection(
        address=address or running_state(home).gateway_address,
        api_key=_api_key(layout_of(home).keys, tenant, api_key_file, is_needed=cert_file is None),
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
    )


def saved_key_file(keys: Path, tenant: str) -> Path:
    """Returns the file of a tenant's saved key. Raises CliError for an impossible name."""
    if not _TENANT.fullmatch(tenant):
        raise CliError("the tenant's name is not valid: use 1 to 64 letters, digits, '_' and '-'")
    return keys / f"{tenant}.key"


def _api_key(
    keys: Path, tenant: str | None, api_key_file: Path | None, *, is_needed: bool
) -> str | None:
    if api_key_file is not None:
        return _read_key(api_key_file)
    if tenant is not None:
        path = saved_key_file(keys, tenant)
        if not path.exists():
            raise CliError(f"there is no saved key {path}: {_remedy(keys)}")
        return _read_key(path)
    if key := os.environ.get(KEY_VARIABLE, "").strip():
        return key
    if not is_needed:
        return None
    raise CliError(f"an API key is needed: {_remedy(keys)}")


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not key or len(key.split()) != 1:
        raise CliError(f"{path} does not hold an API key: it must be one line")
    return key


def _remedy(keys: Path) -> str:
    saved = ", ".join(sorted(path.stem for path in keys.glob("*.key")))
    choice = f"--tenant NAME (saved: {saved}), " if saved else ""
    return f"give {choice}--api-key-file FILE, or set {KEY_VARIABLE}"
