"""What a prepared model directory says beside its weights: end tokens and a canary prompt."""

from __future__ import annotations

from pathlib import Path

from services.chassis.base_model import read_object
from services.chassis.canary import CANARY_TEXT
from services.inference.tokenizer import TextTokenizer


def read_eos_token_ids(directory: Path, tokenizer: TextTokenizer) -> frozenset[int]:
    """Ids that end a generation: those of config.json and the tokenizer's own end token.

    Raises ValueError when config.json or tokenizer_config.json is damaged.
    """
    ids: set[int] = set()
    stated = read_object(directory / "config.json").get("eos_token_id")
    stated = stated if isinstance(stated, list) else [] if stated is None else [stated]
    if not all(type(one) is int for one in stated):
        raise ValueError("config.json has an eos_token_id of a wrong kind: prepare the model again")
    ids.update(stated)
    path = directory / "tokenizer_config.json"
    if path.exists():
        token = read_object(path).get("eos_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        token_id = tokenizer.token_id(spelling) if isinstance(spelling, str) else None
        if token_id is not None:
            ids.add(token_id)
    return frozenset(ids)


def canary_token_ids(tokenizer: TextTokenizer) -> tuple[int, ...]:
    """The prompt every adapter is tried with."""
    return tuple(tokenizer.encode(CANARY_TEXT))
