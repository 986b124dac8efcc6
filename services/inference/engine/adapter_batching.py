"""Who of the waiting goes first when more adapters are wanted than there are slots. Pure.

Serving in order of arrival would then swap adapters all the time. So sequences whose adapters are
in slots overtake those of their class whose adapters are not, until one of these has waited for
`patience_s`: nobody who came later overtakes it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from services.inference.engine.sequence import Sequence as QueuedSequence


def wanted_digests(
    waiting: Iterable[QueuedSequence], seated: Iterable[QueuedSequence]
) -> frozenset[str]:
    """The adapters of all sequences."""
    return frozenset(use.digest for sequence in chain(waiting, seated) for use in sequence.adapters)


def batch_by_adapter(
    waiting: Sequence[QueuedSequence],
    has_slots: Callable[[QueuedSequence], bool],
    *,
    now_s: float,
    patience_s: float,
) -> list[QueuedSequence]:
    """Sorts what waits in order of class and arrival. `has_slots`: whether none has to be loaded.

    Within a class those that need no load and those whose patience is over come first, each group
    in order of arrival.
    """

    def may_be_overtaken(sequence: QueuedSequence) -> bool:
        since_s = sequence.overtaken_since_s
        is_overdue = since_s is not None and now_s - since_s >= patience_s
        return not (is_overdue or has_slots(sequence))

    return sorted(waiting, key=lambda each: (each.precedence, may_be_overtaken(each)))
