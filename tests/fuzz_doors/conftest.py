"""A real gateway in a process of its own, with an adapter, behind both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.fuzzed_doors import FuzzedDoors, fuzzed_doors


@pytest.fixture
async def doors() -> AsyncIterator[FuzzedDoors]:
    """Everything runs; the stand-in worker answers with three words."""
    async with fuzzed_doors() as doors:
        yield doors
