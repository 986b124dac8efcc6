"""The child's side of the line protocol: a JSON object a line in, one out.

Runs in a peer's own environment, so it needs the standard library only. Every request has a
`command`, the name of a method of the engine; its other fields are the arguments. The answer is
`{"result": ...}` or `{"error": "..."}`. One request is answered before the next is read.

Engines offer:
    load(...)        loads model and adapters, returns {"version": text}
    decode(prompts, adapters, new_tokens)
                     greedy decoding of every prompt, stream i with adapter adapters[i], null for
                     the base; returns {"decode_s", "total_s", "token_ids"}: time of the
                     `new_tokens` tokens of each stream after its first, time with prefill, all
                     tokens (new_tokens + 1 a stream)
    prefill(prompt, adapter)   returns {"seconds"} from a prompt to the choice of its first token
    perplexity(windows, first=1)   returns {"nll", "tokens"}: summed -log p of every token of a
                     window from index `first` on, each given all before it, without adapters
    logits(prompt, adapter, target)
                     writes the logits after every token of a prompt to `target`, a file of numpy's
                     with shape [tokens, vocab_size]; llama.cpp and PEFT alone
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def serve(engine: Any) -> None:
    """Answers until standard input ends. What libraries print goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = {"result": getattr(engine, request.pop("command"))(**request)}
            except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
                answer = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def rows_by_adapter(adapters: list[int | None]) -> list[tuple[int | None, list[int]]]:
    """Streams that share an adapter, for peers that run one adapter at a time."""
    groups: dict[int | None, list[int]] = {}
    for row, adapter in enumerate(adapters):
        groups.setdefault(adapter, []).append(row)
    return list(groups.items())
