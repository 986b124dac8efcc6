"""Conversations in the shapes people have them: read as one, and every defect named by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgelora.toolchain.chat_data import read_conversations, read_numbered
from edgelora.toolchain.errors import ToolchainError

ASKED, ANSWERED = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
SYSTEM = {"role": "system", "content": "s"}
SECRET = "my-secret"


@pytest.mark.parametrize(
    ("entry", "conversation"),
    [
        ({"messages": [SYSTEM, ASKED, ANSWERED], "id": 7}, [SYSTEM, ASKED, ANSWERED]),
        ({"prompt": "a", "completion": "b"}, [ASKED, ANSWERED]),
        ({"prompt": "a", "response": "b"}, [ASKED, ANSWERED]),
        ({"prompt": [SYSTEM, ASKED], "completion": [ANSWERED]}, [SYSTEM, ASKED, ANSWERED]),
        ({"instruction": "a", "input": "", "output": "b"}, [ASKED, ANSWERED]),
        (
            {"instruction": "a", "input": "more", "output": "b", "system": "s"},
            [SYSTEM, {"role": "user", "content": "a\n\nmore"}, ANSWERED],
        ),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            [ASKED, ANSWERED],
        ),
    ],
)
def test_a_shape_is_read_in_lines_and_in_an_array(tmp_path: Path, entry, conversation) -> None:
    path = tmp_path / "data"
    path.write_text("\ufeff" + json.dumps(entry) + "\n\n" + json.dumps(entry))
    assert read_numbered(path) == [(1, conversation), (3, conversation)]
    path.write_text(json.dumps([entry, entry], indent=1))
    lines = path.read_text().split("\n")
    assert read_numbered(path) == [
        (number, conversation) for number, line in enumerate(lines, 1) if line == " {"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}', "line 1: 'response' must be text"),
        ('{"prompt": "a", "completion": 7}', "line 1: 'completion' must be text"),
        ('{"prompt": "a\\ud800", "completion": "b"}', "line 1: 'prompt' must be text"),
        ('{"instruction": "a", "output": ""}', "line 1: 'output' must be text"),
        ('{"conversations": [{"from": "my-secret", "value": "x"}]}', "line 1: 'from' must be"),
        ('{"conversations": "my-secret"}', "line 1 has no 'conversations' list"),
        ('{"conversations": [{"from": ["human"], "value": "x"}]}', "line 1: 'from' must be"),
        ('{"my-secret": 1}', "line 1 has no 'messages' list, nor prompt and completion"),
        ('\n[\n{"prompt": "a", "completion": "b"},\n{"my-secret": 1}]', "line 4 has no 'messages'"),
        ('[\n{"prompt": "a", "completion": "b"}\n{}]', "line 3: the array lacks a comma"),
        ('[\n{"prompt": my-secret}]', "line 2 is not JSON"),
        ('[{"prompt": "a", "completion": "b"}]\n[]', "line 2: more follows the array"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("[]", "holds no examples"),
    ],
)
def test_a_defect_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(ToolchainError, match=message) as caught:
        read_conversations(tmp_path / "data.json")
    assert SECRET not in str(caught.value)


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "a\u2028b\x85c", "completion": "d"}\n', encoding="utf-8")
    assert read_conversations(path)[0][0]["content"] == "a\u2028b\x85c"
