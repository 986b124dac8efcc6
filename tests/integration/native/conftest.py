"""What the tests of the native core share: builds, and tiny models."""

from pathlib import Path

import pytest

from tests.support import native_core


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    tool = native_core.missing_tool()
    if tool is not None:
        pytest.skip(f"the native core needs {tool} to be built")
    return native_core.package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def models(package, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    native_core.write_models(package, folder)
    return folder


@pytest.fixture
def build():
    """Builds a variant, or skips the test where a tool is missing."""

    def build_or_skip(variant: str) -> Path:
        tool = native_core.missing_tool(variant)
        if tool is not None:
            pytest.skip(f"the {variant} build of the native core needs {tool}")
        return native_core.build(variant)

    return build_or_skip
