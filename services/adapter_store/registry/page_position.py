"""Where a page of a listing ends, and what the next one asks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The last adapter of a page."""

    registered_at_s: float
    digest: str


def page_of(time: str, digest: str, after: PagePosition | None) -> tuple[str, tuple[object, ...]]:
    """What a page that follows a position asks of these columns, as SQL, and its values."""
    if after is None:
        return "", ()
    at_s = after.registered_at_s
    where = f" AND {time} <= ? AND ({time} < ? OR {digest} > ?)"
    return where, (at_s, at_s, after.digest)
