"""Every reason has one class, one code, one row in docs/errors.md, and survives the wire."""

from pathlib import Path

import pytest

from edgelora.errors import ERROR_CLASSES, from_status, to_status
from edgelora.v1.error_reason_pb2 import ErrorReason

ROOT = Path(__file__).resolve().parents[2]
REASONS = [number for number in ErrorReason.values() if number != 0]


def test_every_reason_has_a_class():
    assert sorted(ERROR_CLASSES) == sorted(REASONS)


@pytest.mark.parametrize("reason", REASONS, ids=ErrorReason.Name)
def test_an_error_keeps_its_meaning_over_the_wire(reason):
    error = ERROR_CLASSES[reason](
        "say what to do", field="options.x", metadata={"limit": "5"}, retry_after_s=1.5
    )
    back = from_status(to_status(error))
    assert type(back) is type(error)
    assert (back.message, back.field) == ("say what to do", "options.x")
    assert (back.metadata, back.retry_after_s) == ({"limit": "5"}, 1.5)


def test_the_documented_table_is_the_real_one():
    rows = {
        f"| `{ErrorReason.Name(reason).removeprefix('ERROR_REASON_')}` "
        f"| `{ERROR_CLASSES[reason].code}` | `{ERROR_CLASSES[reason].__name__}` |"
        for reason in REASONS
    }
    text = (ROOT / "docs/errors.md").read_text()
    documented = {line.rsplit("|", 2)[0] + "|" for line in text.splitlines() if line[:3] == "| `"}
    assert documented == rows
