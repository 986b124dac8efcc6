"""What the router knows of each tenant's adapters, kept from one request to the next.

A tenant's entry is its own: nothing of it is shared with, or looked up for, another tenant. What
all entries hold is bounded; the least recently routed tenant's goes first, and is built again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Protocol

from edgelora.routing import Prototype, PrototypeTable, Router
from edgelora.v1.adapter_store_service_pb2 import ListCandidatesResponse, RouteCandidate
from edgelora.v1.ticket_pb2 import Sealed

MAX_BYTES = 64 << 20
"""Memory of all entries together; one entry may take more."""
_ENTRY_BYTES = 1 << 10
"""About what an entry takes that holds nothing."""


class CandidateStore(Protocol):
    """Where candidates come from; it tells those of the claim's tenant and no others."""

    async def list_candidates(self, claim: Sealed, version: str) -> ListCandidatesResponse:
        """Returns the tenant's candidates; without them when `version` is still theirs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One adapter of a tenant that says what it is for."""

    digest: str
    alias: str
    """Empty when it has none."""
    lowest_rank: int
    """With which it can be served, a lower-rank version in its place."""
    card: bytes
    """Hash of its description and example prompts."""
    prototype: Prototype


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSet:
    """A tenant's candidates of one version under one ceiling, as one router sees them."""

    router: Router
    version: str
    everyone: Sequence[Candidate]
    """Those above the ceiling too, in the order of their digests."""
    max_rank: int | None
    """The ceiling; None: there is none."""
    candidates: Sequence[Candidate]
    """Those up to the ceiling. One of unknown rank, 0, is above any."""
    table: PrototypeTable
    """Of `candidates`, in their order."""

    @property
    def size_bytes(self) -> int:
        """Memory of everything that was read."""
        prototypes = [candidate.prototype for candidate in self.everyone]
        return array_bytes(self.table) + sum(map(array_bytes, prototypes))


@dataclass(slots=True)
class _Entry:
    """What is held of one tenant."""

    held: CandidateSet | None = None
    building: asyncio.Task[CandidateSet] | None = None

    def size_bytes(self) -> int:
        return _ENTRY_BYTES + (0 if self.held is None else self.held.size_bytes)


class CandidateCache:
    """The candidates of the tenants that were routed last. Lives on one event loop."""

    def __init__(self, store: CandidateStore, *, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        # Reading cards takes long enough to hold up the event loop. One card at a time, so that
        # tenants take turns.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="cards")

    async def current(
        self, claim: Sealed, tenant_id: str, router: Router, max_rank: int | None
    ) -> tuple[CandidateSet, frozenset[str]]:
        """Returns the tenant's candidates as they are now, and which digests are resident.

        `max_rank`: adapters that need a higher rank are left out; None: none is. Raises what the
        store raised.
        """
        entry = self._entries.setdefault(tenant_id, _Entry())
        self._entries.move_to_end(tenant_id)
        while True:
            if entry.building is not None:
                await asyncio.shield(entry.building)
            known = entry.held if entry.held is not None and entry.held.router is router else None
            version = "" if known is None else known.version
            listing = await self._store.list_candidates(claim, version)
            resident = frozenset(listing.resident_digests)
            if known is not None and (known.version, known.max_rank) == (listing.version, max_rank):
                return known, resident
            if entry.building is None:
                build = self._build(entry, known, listing, router, max_rank)
                entry.building = asyncio.create_task(build)
                entry.building.add_done_callback(lambda task: _end_build(entry, task))
                # Whoever leaves has the cards read all the same: the next request finds them.
                return await asyncio.shield(entry.building), resident

    async def _build(
        self,
        entry: _Entry,
        known: CandidateSet | None,
        listing: ListCandidatesResponse,
        router: Router,
        max_rank: int | None,
    ) -> CandidateSet:
        """Puts a tenant's set together; what is `known`, by this router, is not read again."""
        run = partial(asyncio.get_running_loop().run_in_executor, self._reader)
        if known is not None and known.version == listing.version:
            everyone = known.everyone
        else:
            kept = () if known is None else known.everyone
            unread = await run(unread_cards, listing.candidates, kept)
            everyone = [
                each if isinstance(each, Candidate) else await run(each.read, router)
                for each in unread
            ]
        entry.held = await run(_assemble, everyone, listing.version, router, max_rank)
        self._forget_oldest()
        return entry.held

    def _forget_oldest(self) -> None:
        size_bytes = sum(entry.size_bytes() for entry in self._entries.values())
        while size_bytes > self._max_bytes and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            size_bytes -= oldest.size_bytes()


def _end_build(entry: _Entry, task: asyncio.Task[CandidateSet]) -> None:
    entry.building = None
    if not task.cancelled():
        task.exception()  # seen, also when nobody waits any more


def _assemble(
    everyone: Sequence[Candidate], version: str, router: Router, max_rank: int | None
) -> CandidateSet:
    candidates = [
        candidate
        for candidate in everyone
        if max_rank is None or 0 < candidate.lowest_rank <= max_rank
    ]
    return CandidateSet(
        router=router,
        version=version,
        everyone=everyone,
        max_rank=max_rank,
        candidates=candidates,
        table=router.table([candidate.prototype for candidate in candidates]),
    )


@dataclass(frozen=True, slots=True)
class UnreadCard:
    """An adapter whose card is to be read."""

    listed: RouteCandidate
    card: bytes
    """Its hash."""

    def read(self, router: Router) -> Candidate:
        """Takes the milliseconds."""
        listed = self.listed
        return _candidate(
            listed, self.card, router.prototype(listed.description, listed.example_prompts)
        )


def unread_cards(
    listed: Iterable[RouteCandidate], known: Iterable[Candidate]
) -> list[Candidate | UnreadCard]:
    """Tells which cards are to be read; an adapter whose card is as in `known` is read already.

    An adapter with neither description nor example says nothing of itself and is left out.
    """
    kept = {(each.digest, each.card): each.prototype for each in known}
    unread: list[Candidate | UnreadCard] = []
    for entry in sorted(listed, key=lambda entry: entry.digest):
        if not any(text.strip() for text in (entry.description, *entry.example_prompts)):
            continue
        card = _hash(entry.description, entry.example_prompts)
        prototype = kept.get((entry.digest, card))
        unread.append(
            UnreadCard(entry, card) if prototype is None else _candidate(entry, card, prototype)
        )
    return unread


def _candidate(listed: RouteCandidate, card: bytes, prototype: Prototype) -> Candidate:
    return Candidate(
        digest=listed.digest,
        alias=listed.alias,
        lowest_rank=listed.lowest_rank,
        card=card,
        prototype=prototype,
    )


def _hash(description: str, examples: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for text in (description, *examples):
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def array_bytes(value: Any) -> int:
    """Returns the memory of the arrays in a dataclass, and in the dataclasses in it."""
    if is_dataclass(value):
        return sum(array_bytes(getattr(value, each.name)) for each in fields(value))
    return int(getattr(value, "nbytes", 0))
