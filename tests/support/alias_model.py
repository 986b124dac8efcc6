"""What a tenant's single alias and its adapters have to do, one call after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Shelf:
    """The state: which adapters there are, and where the alias points."""

    adapters: frozenset[str] = frozenset()
    target: str | None = None
    generation: int = 0
    """Of the alias, or of the last one of that name: it never goes back."""


class Register(NamedTuple):
    """Upload an adapter and point the alias to it."""

    digest: str
    may_replace: bool


class Point(NamedTuple):
    """Point the alias; `expected`: only from this generation, 0 for none, None for any."""

    digest: str
    expected: int | None


class RemoveAlias(NamedTuple):
    """Remove the alias alone."""


class RemoveAdapter(NamedTuple):
    """Remove an adapter, and the alias when it points to it."""

    digest: str


class Resolve(NamedTuple):
    """Ask where the alias points."""


Call = Register | Point | RemoveAlias | RemoveAdapter | Resolve


def apply(shelf: Shelf, call: Call) -> tuple[Shelf, Any]:
    """The state after a call, and its answer: a tuple whose first entry says what happened."""
    current = shelf.generation if shelf.target is not None else 0
    if isinstance(call, Register):
        if shelf.target not in (None, call.digest) and not call.may_replace:
            return shelf, ("taken", current)
        is_new = call.digest not in shelf.adapters
        after = _pointed(replace(shelf, adapters=shelf.adapters | {call.digest}), call.digest)
        return after, ("registered", is_new, after.generation)
    if isinstance(call, Point):
        if call.digest not in shelf.adapters:
            return shelf, ("unknown",)
        if call.expected is not None and call.expected != current:
            return shelf, ("taken", current)
        after = _pointed(shelf, call.digest)
        return after, ("pointed", after.generation)
    if isinstance(call, RemoveAlias):
        if shelf.target is None:
            return shelf, ("unknown",)
        return replace(shelf, target=None), ("removed",)
    if isinstance(call, RemoveAdapter):
        if call.digest not in shelf.adapters:
            return shelf, ("unknown",)
        adapters = shelf.adapters - {call.digest}
        had_alias = shelf.target == call.digest
        target = None if had_alias else shelf.target
        return replace(shelf, adapters=adapters, target=target), ("removed", had_alias)
    return shelf, ("unknown",) if shelf.target is None else ("resolved", shelf.target)


def _pointed(shelf: Shelf, digest: str) -> Shelf:
    if shelf.target == digest:
        return shelf
    return replace(shelf, target=digest, generation=shelf.generation + 1)
