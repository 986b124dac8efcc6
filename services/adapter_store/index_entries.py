"""What the hot index says of one slot, as text. Whoever can write to Redis can write anything."""

from __future__ import annotations

import json
import math

from edgelora.adapter_format import is_digest
from services.adapter_store.residency import SlotReport

_MAX_ENTRY_BYTES = 256
_KEYS = {"last_used_s", "loading", "references"}


def encode_entry(slot: SlotReport) -> str:
    """The value stored under a slot's digest."""
    return json.dumps(
        {
            "last_used_s": round(slot.last_used_s, 3),
            "loading": slot.is_loading,
            "references": slot.num_references,
        }
    )


def decode_entry(digest: bytes, value: bytes) -> SlotReport | None:
    """Reads an entry back; None for anything this store would not have written."""
    try:
        name = digest.decode("ascii")
        document = json.loads(value) if len(value) <= _MAX_ENTRY_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not is_digest(name) or not isinstance(document, dict) or set(document) != _KEYS:
        return None
    last_used_s, references = document["last_used_s"], document["references"]
    if (
        not isinstance(last_used_s, float)
        or not math.isfinite(last_used_s)
        or not isinstance(document["loading"], bool)
        or isinstance(references, bool)
        or not isinstance(references, int)
        or not 0 <= references < 2**32
    ):
        return None
    return SlotReport(
        digest=name,
        num_references=references,
        last_used_s=last_used_s,
        is_loading=document["loading"],
    )
