"""What the tests of the native core do where a tool is missing."""

import pytest

from tests.integration.native.conftest import give_up


def test_a_missing_tool_skips_unless_the_tools_were_asked_for(monkeypatch):
    monkeypatch.delenv("EDGELORA_NATIVE_TOOLS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs clang"):
        give_up("needs clang++")
    monkeypatch.setenv("EDGELORA_NATIVE_TOOLS", "required")
    with pytest.raises(pytest.fail.Exception, match="needs clang"):
        give_up("needs clang++")
