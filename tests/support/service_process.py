"""One of our services as a real process, ready when its health says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_ROOT = Path(__file__).parents[2]
_START_LIMIT_S = 60.0


class ServiceProcess:
    """`python -m MODULE` with its own environment, its output in files."""

    def __init__(
        self, module: str, *arguments: str, environ: Mapping[str, str], logs: Path
    ) -> None:
        self._stdout = logs / f"{module}.out"
        self._stderr = logs / f"{module}.err"
        with self._stdout.open("ab") as stdout, self._stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=_ROOT,
                env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **environ},
                stdout=stdout,
                stderr=stderr,
            )

    def wait_until_serving(self, address: str) -> None:
        """Blocks until the health service at the address says SERVING."""
        with grpc.insecure_channel(
            address, options=[("grpc.max_reconnect_backoff_ms", 100)]
        ) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), timeout=_START_LIMIT_S, wait_for_ready=True
            )
            try:
                for response in watch:
                    if response.status == health_pb2.HealthCheckResponse.SERVING:
                        watch.cancel()
                        return
            except grpc.RpcError as error:
                raise AssertionError(f"never served: {self.errors()}") from error
        raise AssertionError(f"stopped before it served: {self.errors()}")

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Makes it hang."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self, limit_s: float = 20.0) -> int:
        """Asks it to stop and returns the exit status; kills it when it does not."""
        self.process.terminate()
        try:
            return self.process.wait(limit_s)
        finally:
            self.kill()

    def log(self, event: str) -> list[dict[str, Any]]:
        """Returns its log lines of one event, oldest first."""
        lines = [json.loads(line) for line in self._stdout.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def output(self) -> str:
        """Returns what it wrote to standard output."""
        return self._stdout.read_text()

    def errors(self) -> str:
        """Returns what it wrote to standard error."""
        return self._stderr.read_text()
