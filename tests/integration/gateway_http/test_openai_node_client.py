"""The openai package of npm, from Node."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests.support.npm_package import install_npm_package

pytestmark = pytest.mark.integration

PACKAGE = "openai@7"
PROGRAM = Path(__file__).resolve().parents[2] / "support" / "openai_client.mjs"


async def test_the_package_of_npm_does_what_its_manual_says(node, tmp_path):
    await asyncio.to_thread(install_npm_package, tmp_path, PACKAGE)
    # Node looks for packages beside the program.
    shutil.copy(PROGRAM, tmp_path)
    process = await asyncio.create_subprocess_exec(
        "node",
        tmp_path / PROGRAM.name,
        node.url,
        node.key,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found = json.loads(out)
    assert found["models"] == ["stand-in", "auto", "home"]
    assert (found["whole"], found["tokens"]) == ("Hello there.", 10)
    assert (found["streamed"], found["finish"]) == ("Hello there.", "stop")
    assert found["streamedTokens"] == 10
    assert (found["completion"], found["response"]) == ("Hello there.", "Hello there.")
    assert (found["events"][0], found["events"][-1]) == (
        "response.created",
        "response.completed",
    )
    assert found["error"] == ["NotFoundError", 404, "model_not_found", 32]
    assert found["left"]
    await node.bench.wait_until_idle()
