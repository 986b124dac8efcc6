"""Where a local stack keeps its files: durable ones under its home, sockets in a run directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgelora.local_stack.errors import StackError

SERVICES = ("monitor", "adapter_store", "inference", "scheduler", "gateway")
"""Every service of a stack that generates; a later one may depend on the earlier ones."""
ENCODER = "encoder"
"""What classifies and embeds: beside `inference`, or in its place."""

_MAX_SOCKET_PATH_BYTES = 107
"""sun_path holds 108 bytes, the closing NUL among them (unix(7))."""
_LONGEST_SOCKET_NAME = "adapter_store.sock"


@dataclass(frozen=True, slots=True)
class StackLayout:
    """The paths of one stack."""

    home: Path
    """What outlives a run: models, adapters, tenants, secrets, logs."""
    run_dir: Path
    """What does not: sockets, pid files, the Redis configuration. Removed at the end."""

    @classmethod
    def of(cls, home: Path, environ: Mapping[str, str]) -> StackLayout:
        """Places a stack's run directory, named after its home.

        The run directory is not below the home, because a socket's path must be short.

        Raises StackError when even this path would be too long.
        """
        home = home.expanduser().resolve()
        name = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
        session = Path(environ.get("XDG_RUNTIME_DIR", ""))
        if environ.get("XDG_RUNTIME_DIR") and os.access(session, os.W_OK | os.X_OK):
            run_dir = session / f"edgelora-{name}"
        else:
            temporary = Path(environ.get("TMPDIR") or tempfile.gettempdir())
            run_dir = temporary.resolve() / f"edgelora-{os.getuid()}-{name}"
        if len(os.fsencode(run_dir / _LONGEST_SOCKET_NAME)) > _MAX_SOCKET_PATH_BYTES:
            raise StackError(
                f"the socket directory {run_dir} is too long for a unix socket: "
                "set TMPDIR to a shorter directory, for example /tmp"
            )
        return cls(home=home, run_dir=run_dir)

    @property
    def secrets(self) -> Path:
        return self.home / "secrets"

    @property
    def keys(self) -> Path:
        """One file for each demo tenant's API key."""
        return self.home / "keys"

    @property
    def operator_key_file(self) -> Path:
        """Opens the dashboard; made at the first start."""
        return self.secrets / "operator.key"

    @property
    def remotes_file(self) -> Path:
        """Names the remotes adapters may be installed from; written by the operator, or absent."""
        return self.home / "remotes.toml"

    @property
    def router_file(self) -> Path:
        """The router of `edgelora router train`, or absent: then the package's own serves."""
        return self.home / "router" / "router.safetensors"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def pids(self) -> Path:
        return self.run_dir / "pids"

    @property
    def state_file(self) -> Path:
        """Tells the other commands where the running stack is reached."""
        return self.home / "stack.json"

    def socket(self, service: str) -> Path:
        return self.run_dir / f"{service}.sock"

    def address(self, service: str) -> str:
        """The gRPC target of a service."""
        return f"unix:{self.socket(service)}"

    def make_home(self) -> None:
        """Creates the home, closed to other users. Raises StackError when that fails."""
        try:
            for directory in (self.home, self.secrets, self.keys, self.logs):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StackError(
                f"cannot create {error.filename}: {error.strerror}: choose another --home"
            ) from error

    def make_run_dir(self) -> None:
        """Creates an empty run directory, and trusts no other user's of that name."""
        self.remove_run_dir()
        try:
            self.run_dir.mkdir(mode=0o700)
            self.pids.mkdir(mode=0o700)
        except OSError as error:
            raise StackError(
                f"cannot create {self.run_dir}: {error.strerror}: "
                "remove it, or set TMPDIR to another directory"
            ) from error

    def remove_run_dir(self) -> None:
        """Removes the run directory if it is there and ours."""
        try:
            status = self.run_dir.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StackError(f"{self.run_dir} is not a directory of yours: remove it")
        shutil.rmtree(self.run_dir, ignore_errors=True)
