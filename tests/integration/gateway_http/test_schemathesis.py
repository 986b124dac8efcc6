"""Schemathesis asks a real gateway all that its published document allows, and what it does not."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.openai_node import OpenAiNode, openai_node

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
CHECKS = ",".join(
    (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
        "ignored_auth",
    )
)


async def run(node: OpenAiNode, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a run against the gateway of this process."""
    process = await asyncio.create_subprocess_exec(
        SCHEMATHESIS,
        "run",
        f"{node.root}/openapi.json",
        *("--header", f"Authorization: Bearer {node.bench.keys['tester']}"),
        *("--checks", CHECKS, "--no-color", "--seed", "7", "--generation-database", "none"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=node.bench.directory,  # it leaves things behind
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks",
        },
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_every_answer_is_one_that_the_document_announces(bench):
    node = await openai_node(bench, has_encoder=True)
    await bench.client("tester", max_requests_per_minute=10**6, max_tokens_per_minute=10**9)
    bench.store.add_encoder_adapter("tester", "intents")
    status, output = await run(node, "--max-examples", "8", "--phases", "coverage,fuzzing")
    assert status == 0, output[-6000:]
    assert re.search(r"Operations: +27 selected / 27 total", output), output[-3000:]
    # Some of it was right, and was answered.
    assert not node.worker.calls.empty()
    assert not bench.encoder.calls.empty()
    await node.still_serves()
