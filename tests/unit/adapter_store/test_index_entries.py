"""What comes back from Redis is checked as if a stranger had written it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.adapter_store.index_entries import decode_entry, encode_entry
from services.adapter_store.residency import SlotReport

DIGEST = "sha256:" + "a" * 64
GOOD = {"last_used_s": 1.5, "loading": False, "references": 2}


@given(
    st.integers(0, 2**32 - 1), st.floats(0, 1e9, allow_nan=False).map(lambda x: round(x, 3)),
    st.booleans(),
)  # fmt: skip
def test_what_is_written_is_read_back(references, last_used_s, is_loading):
    slot = SlotReport(
        digest=DIGEST,
        num_references=references,
        last_used_s=last_used_s,
        is_loading=is_loading,
    )
    assert decode_entry(DIGEST.encode(), encode_entry(slot).encode()) == slot


@pytest.mark.parametrize(
    "change",
    [
        {"last_used_s": 1},
        {"last_used_s": float("nan")},
        {"last_used_s": "1"},
        {"loading": 0},
        {"references": -1},
        {"references": 2**32},
        {"references": True},
        {"path": "/etc/passwd"},
    ],
)
def test_other_values_are_ignored_T22(change):
    assert decode_entry(DIGEST.encode(), json.dumps(GOOD).encode()) is not None
    assert decode_entry(DIGEST.encode(), json.dumps(GOOD | change).encode()) is None


@given(st.binary(max_size=100), st.binary(max_size=300))
def test_any_bytes_are_ignored_and_never_crash_T22(digest, value):
    assert decode_entry(digest, value) is None
    assert decode_entry(digest, json.dumps(GOOD).encode()) is None
    assert decode_entry(DIGEST.encode(), value) is None


def test_deep_or_long_values_are_ignored_T22():
    assert decode_entry(DIGEST.encode(), b"[" * 250) is None
    assert decode_entry(DIGEST.encode(), json.dumps(GOOD).encode() + b" " * 300) is None
