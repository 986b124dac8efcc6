"""What a prepared model directory says beside its weights: end tokens and a canary prompt."""

from __future__ import annotations

import json
from pathlib import Path

from services.inference.tokenizer import TextTokenizer

_CANARY = "Tell me about the weather, please."


def read_eos_token_ids(directory: Path, tokenizer: TextTokenizer) -> frozenset[int]:
    """Ids that end a generation: those of config.json and the tokenizer's own end token."""
    ids: set[int] = set()
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    stated = config.get("eos_token_id")
    ids.update(stated if isinstance(stated, list) else [] if stated is None else [stated])
    path = directory / "tokenizer_config.json"
    if path.exists():
        token = json.loads(path.read_text(encoding="utf-8")).get("eos_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        token_id = tokenizer.token_id(spelling) if isinstance(spelling, str) else None
        if token_id is not None:
            ids.add(token_id)
    return frozenset(ids)


def canary_token_ids(tokenizer: TextTokenizer) -> tuple[int, ...]:
    """A short fixed prompt every adapter is tried with."""
    return tuple(tokenizer.encode(_CANARY))
