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
from dataclasses import dataclass, field
from typing import Protocol

from edgelora.routing import Prototype, PrototypeTable, Router
from edgelora.v1.adapter_store_service_pb2 import ListCandidatesResponse, RouteCandidate
from edgelora.v1.ticket_pb2 import Sealed

MAX_EXAMPLES = 100_000
"""Example prompts of all entries together; at 64 numbers of 4 bytes each about 50 MB."""


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
    rank: int
    card: bytes
    """Hash of its description and example prompts."""
    prototype: Prototype


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSet:
    """A tenant's candidates of one version, as one router sees them."""

    router: Router
    version: str
    candidates: Sequence[Candidate]
    """In the order of their digests."""
    table: PrototypeTable
    """Of all candidates, in their order."""

    def allowed(self, max_rank: int | None) -> tuple[Sequence[Candidate], PrototypeTable]:
        """The candidates of at most this rank; None: all. One of unknown rank, 0, is above any."""
        if max_rank is None:
            return self.candidates, self.table
        allowed = [candidate for candidate in self.candidates if 0 < candidate.rank <= max_rank]
        if len(allowed) == len(self.candidates):
            return self.candidates, self.table
        return allowed, self.router.table([candidate.prototype for candidate in allowed])


@dataclass(slots=True)
class _Entry:
    """What is held of one tenant."""

    held: CandidateSet | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)

    def size(self) -> int:
        """Example prompts it holds, and one for itself."""
        return 1 + (0 if self.held is None else len(self.held.table.examples))


class CandidateCache:
    """The candidates of the tenants that were routed last. Lives on one event loop."""

    def __init__(self, store: CandidateStore, *, max_examples: int = MAX_EXAMPLES) -> None:
        self._store = store
        self._max_examples = max_examples
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        # Reading example prompts takes long enough to hold up the event loop.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="prototypes")

    async def current(
        self, claim: Sealed, tenant_id: str, router: Router
    ) -> tuple[CandidateSet, frozenset[str]]:
        """Returns the tenant's candidates as they are now, and which digests are resident.

        Raises what the store raised.
        """
        entry = self._entries.setdefault(tenant_id, _Entry())
        self._entries.move_to_end(tenant_id)
        held = entry.held
        known = held.version if held is not None and held.router is router else ""
        listing = await self._store.list_candidates(claim, known)
        if held is None or held.router is not router or held.version != listing.version:
            held = await self._build(entry, listing, router)
            self._forget_oldest()
        return held, frozenset(listing.resident_digests)

    async def _build(
        self, entry: _Entry, listing: ListCandidatesResponse, router: Router
    ) -> CandidateSet:
        async with entry.building:
            held = entry.held
            if held is not None and held.router is router and held.version == listing.version:
                return held  # built by another request of the tenant meanwhile
            entry.held = await asyncio.get_running_loop().run_in_executor(
                self._reader, build, listing.candidates, listing.version, router, held
            )
            return entry.held

    def _forget_oldest(self) -> None:
        size = sum(entry.size() for entry in self._entries.values())
        while size > self._max_examples and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            size -= oldest.size()


def build(
    listed: Iterable[RouteCandidate], version: str, router: Router, old: CandidateSet | None
) -> CandidateSet:
    """Reads cards into prototypes; an adapter whose card is as in `old` keeps its prototype.

    An adapter with neither description nor example says nothing of itself and is left out.
    """
    kept: dict[tuple[str, bytes], Prototype] = {}
    if old is not None and old.router is router:
        kept = {(each.digest, each.card): each.prototype for each in old.candidates}
    candidates = []
    for entry in sorted(listed, key=lambda entry: entry.digest):
        texts = [text for text in (entry.description, *entry.example_prompts) if text.strip()]
        if not texts:
            continue
        card = _hash(entry.description, entry.example_prompts)
        prototype = kept.get((entry.digest, card)) or router.prototype(
            entry.description, entry.example_prompts
        )
        candidates.append(
            Candidate(
                digest=entry.digest,
                alias=entry.alias,
                rank=entry.rank,
                card=card,
                prototype=prototype,
            )
        )
    return CandidateSet(
        router=router,
        version=version,
        candidates=candidates,
        table=router.table([candidate.prototype for candidate in candidates]),
    )


def _hash(description: str, examples: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for text in (description, *examples):
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()
