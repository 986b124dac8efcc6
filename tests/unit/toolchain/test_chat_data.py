"""Chat data files: every defect is named with its line, and nobody's text is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgelora.toolchain.chat_data import read_conversations, write_conversations
from edgelora.toolchain.errors import ToolchainError

GOOD = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
SECRET = "my-secret"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    data = [
        [{"role": "user", "content": "Zoë\nasks"}, {"role": "assistant", "content": "ünïcode 🙂"}]
    ]
    write_conversations(tmp_path / "data.jsonl", data)
    assert read_conversations(tmp_path / "data.jsonl") == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no examples"),
        ("\n \n", "holds no examples"),
        (f"{GOOD}\n{SECRET}\n", "line 2 is not JSON"),
        ('[{"role": "user"}]\n', "line 1 has no 'messages' list"),
        ('{"messages": []}', "line 1 has no 'messages' list"),
        ('{"messages": ["my-secret"]}', "'role' must be one of system, user, assistant"),
        ('{"messages": [{"role": "my-secret", "content": "a"}]}', "'role' must be one of"),
        ('{"messages": [{"role": "user", "content": ["my-secret"]}]}', "'content' must be text"),
        ('{"messages": [{"role": "assistant", "content": " "}]}', "'content' must be text"),
        ('{"messages": [{"role": "user", "content": "my-secret"}]}', "has no assistant message"),
    ],
)
def test_defect_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "data.jsonl").write_text(text)
    with pytest.raises(ToolchainError, match=message) as caught:
        read_conversations(tmp_path / "data.jsonl")
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_directory_and_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="not found"):
        read_conversations(tmp_path / "nowhere.jsonl")
    with pytest.raises(ToolchainError, match="is a directory"):
        read_conversations(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolchainError, match="not UTF-8"):
        read_conversations(tmp_path / "latin.jsonl")
