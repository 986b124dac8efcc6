"""What the tests of the native core share: builds, and tiny models."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support import native_core


def give_up(reason: str) -> NoReturn:
    """Skips for want of a tool; fails where the tools were asked for, as by `make native-fuzz`."""
    if os.environ.get("EDGELORA_NATIVE_TOOLS") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    tool = native_core.missing_tool()
    if tool is not None:
        give_up(f"the native core needs {tool} to be built")
    return native_core.package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def models(package, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    native_core.write_models(package, folder)
    return folder


@pytest.fixture
def build():
    """Builds a variant, or gives the test up where a tool is missing."""

    def build_or_give_up(variant: str) -> Path:
        tool = native_core.missing_tool(variant)
        if tool is not None:
            give_up(f"the {variant} build of the native core needs {tool}")
        return native_core.build(variant)

    return build_or_give_up
