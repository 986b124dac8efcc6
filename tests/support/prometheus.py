"""Debian's Prometheus and promtool, and what they are given to read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.free_port import free_port, wait_for_port

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
_LIMIT_S = 60.0
_POLL_S = 0.05

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs prometheus and promtool: apt-get install prometheus",
)


def promtool(
    *arguments: str | Path, text: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs promtool."""
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, check=False)


def scrape(address: str, path: str = "/metrics") -> bytes:
    """What a service shows at `host:port`."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as response:
        body: bytes = response.read()
    return body


def families(text: bytes) -> dict[str, str]:
    """Name -> type of everything an exposition announces, with samples or without."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text.decode(), re.M))


def samples(text: bytes) -> dict[str, float]:
    """Series -> value."""
    lines = [line for line in text.decode().splitlines() if line and not line.startswith("#")]
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}


class Prometheus:
    """A server that reads some addresses each second."""

    def __init__(self, directory: Path, targets: dict[str, str]) -> None:
        """`targets`: process -> `host:port`."""
        self._targets = targets
        self._port = free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {
                    "job_name": "edgelora",
                    "scrape_timeout": "1s",
                    "static_configs": [
                        {"targets": [address], "labels": {"process": process}}
                        for process, address in targets.items()
                    ],
                }
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        self._log = directory / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={file}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        wait_for_port(self._process, self._port, self._log)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _LIMIT_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=10).close()
                return
            except urllib.error.HTTPError:
                assert time.monotonic() < end, self._log.read_text()
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API answers; raises AssertionError for an error."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                document = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series of the answer."""
        data = self.ask("query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def wait_for(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The first answer that is not empty."""
        end = time.monotonic() + _LIMIT_S
        while not (answer := self.query(expression)):
            assert time.monotonic() < end, f"{expression} stayed empty: {self._log.read_text()}"
            time.sleep(_POLL_S)
        return answer


def grafana_expressions(document: dict[str, Any]) -> list[str]:
    """Every expression of a dashboard, Grafana's own variables filled in."""
    found = [
        target["expr"] for panel in document["panels"] for target in panel.get("targets", [])
    ] + [each["expr"] for each in document["annotations"]["list"]]
    return [expression.replace("$__rate_interval", "1m") for expression in found]


def names_in(expression: str) -> set[str]:
    """The families an expression reads, without Prometheus' own `up` and `ALERTS`."""
    names = re.findall(r"\b(?:edgelora_|process_|vllm:)\w+", re.sub(r'"[^"]*"', "", expression))
    labels = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression)
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in names} - set(
        ", ".join(labels).split(", ")
    )
