"""The snippets of README.md, run as they stand against the stack its first command starts."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.up_process import LIMIT_S, ROOT, up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
LINES = re.findall(
    r"^    (\S.*)$", re.sub(r"```.*?```", "", README, flags=re.S).replace("\\\n", ""), re.M
)
NOT_RUN = ("make run", "make test", ".venv/bin/edgelora chat", "pip install", "deploy/", "docker ")
"""They set up what the tests have; the chat is the one `up` shows, run by its own test."""
SLOW = ("edgelora model prepare", "edgelora train")
"""What they make is put there."""
OF_ENCODERS = ("edgelora adapters add intents", "edgelora classify", "edgelora embed")
"""For a node that serves an encoder: test_encoder.py runs them on one."""


class Reader:
    """Somebody who pastes from the README in the directory of the checkout."""

    def __init__(self, up, directory):
        self.up = up
        self.directory = directory
        (directory / ".edgelora").symlink_to(up.home)
        shutil.copytree(ROOT / "demo/recipes", directory / "notes")
        self._places = {
            "127.0.0.1:8080": up.state["http_address"],
            "127.0.0.1:50051": up.state["gateway_address"],
        }

    def run(self, *command, text):
        """What a command prints."""
        text = text.replace(".venv/bin/", "")
        for written, real in self._places.items():
            text = text.replace(written, real)
        environ = {**self.up.environ, "EDGELORA_HOME": ".edgelora"}
        environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
        done = subprocess.run(
            [*command, text],
            cwd=self.directory,
            env=environ,
            input="Hello",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip(), text
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    directory = tmp_path_factory.mktemp("readme")
    with up_process(directory, *("--port", "0", "--http-port", "0", "--dashboard-port", "0")) as up:
        up.start().wait_until_serving()
        yield Reader(up, directory)
        assert up.stop() == 0


def test_the_openai_client_gets_an_answer_one_of_a_shape_and_a_call(reader):
    (program,) = (each for each in PROGRAMS if "from openai" in each)
    printed = reader.run(sys.executable, "-c", text=program)
    (dinner,) = re.findall(r'^\{"dish": .*\}$', printed, re.M)
    assert 5 <= json.loads(dinner)["minutes"] <= 90
    assert "start_timer" in printed.splitlines()[-1]


def test_our_own_client_streams(reader):
    (program,) = (each for each in PROGRAMS if "from edgelora" in each)
    assert len(PROGRAMS) == 2
    reader.run(sys.executable, "-c", text=program)


def test_every_line_for_a_shell_works_in_turn(reader):
    run = [line for line in LINES if not line.startswith((*NOT_RUN, *SLOW, *OF_ENCODERS))]
    assert len(run) > 12
    for line in run:
        if line.startswith("curl") and shutil.which("curl") is None:
            continue
        reader.run("sh", "-c", text=line)
