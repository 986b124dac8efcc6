"""Starts what docker-compose.yml starts as processes of this machine.

Same commands, same environments; only what containers give each other is mapped: host names and
ports to free ports of the loopback interface, mounted paths to directories, secrets to their files.
"""

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from edgelora.local_stack.redis_binary import find_redis_binary
from services.chassis.healthcheck import is_serving
from tests.support.compose_file import ROOT, load_compose

_PORTS = {
    "redis": "6379",
    "gateway": "50051",
    "scheduler": "50052",
    "adapter_store": "50053",
    "inference": "50054",
    "monitor": "50055",
}
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 20.0
_PROBE_PAUSE_S = 0.1


class ComposeProcesses:
    """The containers of the compose file as processes."""

    def __init__(self, directory, home):
        """`directory`: for everything they write; `home`: what the `models` volume holds."""
        self.directory = directory
        containers = load_compose()["services"]
        self.services = {name: c for name, c in containers.items() if "profiles" not in c}
        self.processes = {}
        self._ports = {}
        subprocess.run(
            ["sh", str(ROOT / "deploy/make_secrets.sh"), str(directory / "secrets")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        secrets = load_compose({"EDGELORA_SECRETS": str(directory / "secrets")})["secrets"]
        self._secrets = {name: secret["file"] for name, secret in secrets.items()}
        self._home = home

    def port(self, service, number=None):
        """The port that stands for one of the service's; by default the one it is called on."""
        place = service, number or _PORTS[service]
        if place not in self._ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._ports[place] = probe.getsockname()[1]
        return self._ports[place]

    def local(self, service, value):
        """A word of a command or a value of an environment, mapped to this machine."""
        places = {f"/run/secrets/{name}": path for name, path in self._secrets.items()}
        places |= {place: str(path) for place, path in self._mounts(service).items()}
        # One pass, so that nothing inside a path just put in is taken for a place.
        names = "|".join(sorted(map(re.escape, places), key=len, reverse=True))
        value = re.sub(rf"(?<![\w/])(?:{names})(?!\w)", lambda match: places[match[0]], value)
        hosts = "|".join([re.escape("0.0.0.0"), *self.services])

        def local_address(match):
            name = match[1] if match[1] in self.services else service
            return f"127.0.0.1:{self.port(name, match[2])}"

        return re.sub(rf"(?<![\w/.-])({hosts}):(\d+)", local_address, value)

    def _mounts(self, service):
        """Container path -> directory, by the service's own volumes and tmpfs entries."""
        mounts = {}
        for volume in self.services[service].get("volumes", []):
            name, place = volume.split(":")[:2]
            mounts[place] = self._home if name == "models" else self.directory / name
        for entry in self.services[service].get("tmpfs", []):
            place = entry.split(":")[0]
            mounts[place] = self.directory / service / Path(place).name
        for path in mounts.values():
            path.mkdir(parents=True, exist_ok=True)
        return mounts

    def command(self, service):
        """The service's command for this machine."""
        words = [self.local(service, word) for word in self.services[service]["command"]]
        if words[0] == "python":
            words[0] = sys.executable
        elif words[0] == "valkey-server":
            words[0] = str(find_redis_binary().path)
            words += ["--bind", "127.0.0.1"]
            words[words.index("6379")] = str(self.port(service))
        return words

    def environment(self, service):
        """The service's environment for this machine: its own and nothing of the test's."""
        bin_directory = str(Path(sys.executable).parent)
        own = self.services[service].get("environment", {})
        return {
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            **{name: self.local(service, value) for name, value in own.items()},
        }

    async def start(self, service):
        """Starts a service and returns when it is healthy (a one-shot service: has succeeded)."""
        with self.log_file(service).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self.command(service),
                env=self.environment(service),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes[service] = process
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                if self.services[service]["restart"] == "no":
                    assert await process.wait() == 0, self.log(service)
                    return
                while not await self.is_healthy(service):
                    assert process.returncode is None, self.log(service)
                    await asyncio.sleep(_PROBE_PAUSE_S)
        except TimeoutError:
            raise AssertionError(f"{service} is not healthy\n{self.log(service)}") from None

    async def is_healthy(self, service):
        """What the container's health check asks."""
        if service == "redis":
            return await self.redis_command("PING") == b"-NOAUTH Authentication required.\r\n"
        return await is_serving(f"127.0.0.1:{self.port(service)}")

    async def redis_command(self, *words, password=None):
        """The first line Redis answers to a command, as the store's user when given a password."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port("redis"))
        except OSError:
            return None
        commands = [("AUTH", "edgelora-store", password)] if password else []
        for parts in [*commands, words]:
            writer.write((shlex.join(parts) + "\r\n").encode())
        answer = b""
        for _ in range(len(commands) + 1):
            answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    def secret(self, name):
        """The content of a secret."""
        return Path(self._secrets[name]).read_text()

    def log_file(self, service):
        """Where the service's output goes."""
        return self.directory / f"{service}.log"

    def log(self, service):
        """The end of what a service wrote."""
        return self.log_file(service).read_text(errors="replace")[-3000:]

    def order(self):
        """The services, each after those it depends on."""
        ordered = []

        def add(name):
            for needed in self.services[name].get("depends_on", {}):
                if needed in self.services:  # not one of a profile, which may be absent
                    add(needed)
            if name not in ordered:
                ordered.append(name)

        for name in self.services:
            add(name)
        return ordered

    async def stop(self):
        """Stops everything in the opposite order, as Compose does."""
        for process in reversed(self.processes.values()):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(process.wait(), _STOP_LIMIT_S)
                except TimeoutError:
                    os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()


@asynccontextmanager
async def compose_stack(directory, home):
    """Everything started and healthy."""
    stack = ComposeProcesses(directory, home)
    try:
        for service in stack.order():
            await stack.start(service)
        yield stack
    finally:
        await stack.stop()
