"""What a router answers to texts, and how fast, on a device at ease with every adapter resident."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgelora.routing import DeviceState, PrototypeTable, Router
from edgelora.toolchain.router_sources import Source

_AT_EASE = DeviceState(temperature=0.0, memory=0.0, battery=0.0)


def prototypes_of(router: Router, sources: Sequence[Source]) -> PrototypeTable:
    """What the router knows of the adapters: their cards."""
    return router.table(
        [router.prototype(source.card.description, source.card.examples) for source in sources]
    )


def choose_all(router: Router, table: PrototypeTable, texts: Sequence[str]) -> NDArray[np.int64]:
    """The choice with the highest score for each text; the number of candidates is the base."""
    return np.array([_choose(router, table, text) for text in texts], np.int64)


def decision_seconds(
    router: Router, sources: Sequence[Source], texts: Sequence[str], num_candidates: int
) -> list[float]:
    """How long each decision takes, from the text to the scores, among `num_candidates`."""
    prototypes = [
        router.prototype(source.card.description, source.card.examples) for source in sources
    ]
    table = router.table([prototypes[n % len(prototypes)] for n in range(num_candidates)])
    _choose(router, table, texts[0])
    taken: list[float] = []
    for text in texts:
        started = time.perf_counter()
        _choose(router, table, text)
        taken.append(time.perf_counter() - started)
    return taken


def _choose(router: Router, table: PrototypeTable, text: str) -> int:
    resident = np.ones(len(table.means), np.bool_)
    return int(np.argmax(router.scores(router.embed(text), table, _AT_EASE, resident)))
