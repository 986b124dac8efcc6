"""A remote on this machine: packages on a static HTTP server in a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.result import BenchError
from edgelora.adapter_encoding import encode_adapter
from edgelora.adapter_package import write_package
from edgelora.local_stack.ports import HOST, choose_port
from edgelora.local_stack.processes import ChildProcess
from services.chassis.base_model import BaseModel

SERVER = "Python's http.server over the loopback interface"
REMOTE = "site"
_READY_LIMIT_S = 20.0
_POLL_S = 0.05
_STOP_GRACE_S = 2.0
_LEVEL = 3.2
"""Of encoded forms: the one nodes take first."""


@dataclass(frozen=True, slots=True)
class PackageSite:
    """A running server, and the file that tells a store of it."""

    remotes_file: Path
    _directory: Path
    _process: ChildProcess

    def publish(self, adapter: Path, name: str, encoded_for: BaseModel | None = None) -> str:
        """Packs a PEFT adapter and returns what a tenant calls it.

        `encoded_for`: a base model whose nodes find the encoded form in the package too.
        """
        forms = []
        if encoded_for is not None:
            form = encode_adapter(
                adapter,
                base_digest=encoded_for.digest,
                targets=encoded_for.targets,
                num_layers=encoded_for.num_layers,
                level=_LEVEL,
            )
            forms.append(form)
        write_package(adapter, self._directory / name, "latest", forms)
        return f"{REMOTE}/{name}"

    async def cut(self) -> None:
        """Ends the server for good: nobody answers at its address."""
        await self._process.stop(_STOP_GRACE_S)


@asynccontextmanager
async def package_site(directory: Path) -> AsyncIterator[PackageSite]:
    """Serves the packages below a directory. Raises BenchError when the server does not start."""
    site = directory / "site"
    site.mkdir()
    port = choose_port(0)
    remotes_file = directory / "remotes.toml"
    remotes_file.write_text(
        f'[{REMOTE}]\nkind = "http"\nurl = "http://{HOST}:{port}"\nallow_plain_http = true\n',
        encoding="utf-8",
    )
    arguments = ["--bind", HOST, "--protocol", "HTTP/1.1", "--directory", str(site), str(port)]
    process = ChildProcess(
        [sys.executable, "-I", "-m", "http.server", *arguments],
        environ={"PATH": os.environ.get("PATH", os.defpath)},
        log=directory / "site.log",
        pid_file=directory / "site.pid",
    )
    try:
        limit_s = time.monotonic() + _READY_LIMIT_S
        while not _answers(port):
            if time.monotonic() > limit_s or process.exit_status() is not None:
                raise BenchError("the static HTTP server does not start")
            await asyncio.sleep(_POLL_S)
        yield PackageSite(remotes_file, site, process)
    finally:
        await process.stop(_STOP_GRACE_S)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
