"""What a check of a grammar may find. Without imports, for the process that checks."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """One byte between the processes."""

    FITS = 0
    INVALID = 1
    UNSATISFIABLE = 2
    OVERLAPPING = 3
    BAD_PATTERN = 4
    TOO_COMPLEX = 5
    TIMED_OUT = 6
    """On the clock, with little processor time used, or killed: the machine is busy."""


REASONS = {
    Verdict.INVALID: "can not be made into a grammar: check it",
    Verdict.UNSATISFIABLE: "allows no answer: check its bounds, names and references",
    Verdict.OVERLAPPING: "uses oneOf with branches that may overlap: use anyOf",
    Verdict.BAD_PATTERN: "holds a regular expression that is not understood: mind its brackets; "
    "look-around and back-references are not supported",
    Verdict.TOO_COMPLEX: "takes too much time or memory to be prepared: make it simpler",
}
"""Behind the name of the field."""

_SIGNS = (
    ("Unsatisfiable schema", Verdict.UNSATISFIABLE),
    ("oneOf constraints are not supported", Verdict.OVERLAPPING),
    ("regex parse error", Verdict.BAD_PATTERN),
    ("invalid regex", Verdict.BAD_PATTERN),
    ("too large", Verdict.TOO_COMPLEX),
    ("too many", Verdict.TOO_COMPLEX),
    ("too complex", Verdict.TOO_COMPLEX),
    ("too big", Verdict.TOO_COMPLEX),
    ("limit", Verdict.TOO_COMPLEX),
    ("fuel", Verdict.TOO_COMPLEX),
)
"""Parts of llguidance's messages, which hold what the caller wrote and go no further."""


def verdict_of(message: str) -> Verdict:
    """The verdict behind a message of llguidance; an empty one is none."""
    if not message:
        return Verdict.FITS
    return next((verdict for sign, verdict in _SIGNS if sign in message), Verdict.INVALID)
