"""A real Home Assistant in a process and an environment of its own, behind a proxy with the key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.nginx_server import NginxServer

_ROOT = Path(__file__).parents[2]
PYTHON = _ROOT / ".home-assistant" / "bin" / "python"
_NODE = Path(__file__).with_name("home_assistant_node.py")
_LIMIT_S = 100.0


@dataclass(frozen=True)
class HomeTurn:
    """What came of one sentence."""

    speech: str
    type: str
    is_light_on: bool


@dataclass(frozen=True)
class HomeVisit:
    """What came of adding a server and talking to it."""

    offered: list[str]
    """Models its form lists."""
    title: str
    state: str
    """Of the config entry."""
    turns: list[HomeTurn]


def require_home_assistant() -> None:
    """Skips where the environment was not prepared."""
    if not PYTHON.exists():
        pytest.skip("there is no Home Assistant: `make home-assistant` prepares it (Python 3.13)")


def visit(
    directory: Path, url: str, model: str, sentences: Sequence[str], *, controls_home: bool
) -> HomeVisit:
    """Starts a Home Assistant, adds the server at `url` through its forms, says the sentences."""
    directory.mkdir()
    wanted = {
        "url": url,
        "model": model,
        "sentences": list(sentences),
        "controls_home": controls_home,
    }
    done = subprocess.run(
        [PYTHON, _NODE, directory],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return HomeVisit(
        offered=told["offered"],
        title=told["entry"]["title"],
        state=told["entry"]["state"],
        turns=[HomeTurn(**turn) for turn in told["turns"]],
    )


def key_proxy(directory: Path, http_port: int, key: str) -> NginxServer:
    """An nginx that gives every request the key, as docs/http.md has it."""
    return NginxServer(
        directory,
        directory,
        directives=(
            f"location / {{ proxy_pass http://127.0.0.1:{http_port}; proxy_http_version 1.1; "
            f'proxy_set_header Authorization "Bearer {key}"; proxy_buffering off; '
            "proxy_read_timeout 600s; }"
        ),
    )
