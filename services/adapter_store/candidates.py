"""What the router may choose among: a tenant's own adapters that have an alias or a card.

Asked for every request that leaves the choice open, so that nothing but a counter is read while
nothing has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from services.adapter_store.registry.manifest import Candidate
from services.adapter_store.registry.registry import Registry
from services.adapter_store.residency import Residency

MAX_CANDIDATES = 256
MAX_TENANTS = 256
"""Whose digests are remembered: about 40 KB of the largest; of others they are read each time."""
_MAX_PROMPT_BYTES = 2 << 20
"""Of all example prompts together: a message holds 4 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateList:
    """An answer to one question for candidates."""

    version: str
    """Changes with the candidates, not with who holds them."""
    candidates: Sequence[Candidate] | None
    """Newest first; None when the asker has them."""
    resident_digests: Sequence[str]
    """Of the candidates, those in a slot of any worker."""


class Candidates:
    """The candidates of all tenants, each asked for under its own claim."""

    def __init__(
        self,
        registry: Registry,
        residency: Residency,
        base_digest: str | None,
        boot_clock_s: Callable[[], float],
    ) -> None:
        """`base_digest`: the decoder's; without one there are no candidates."""
        self._registry = registry
        self._residency = residency
        self._base_digest = base_digest
        self._boot_clock_s = boot_clock_s
        # Another process may serve another base model, or another registry.
        self._epoch = uuid4().hex
        self._digests: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()
        """Tenant -> the number of its changes, and its candidates then; last asked, last."""

    def of(self, tenant_id: str, known_version: str) -> CandidateList:
        """A tenant's candidates, but for an asker that has them in this version."""
        # Read first: a change after it shows in the next number.
        number = self._registry.change_number(tenant_id)
        version = f"{self._epoch}-{number}"
        seen_number, digests = self._digests.get(tenant_id, (None, frozenset[str]()))
        candidates = None
        if version != known_version or seen_number != number:
            candidates = self._registry.candidates(tenant_id, self._base_digest, MAX_CANDIDATES)
            digests = frozenset(candidate.digest for candidate in candidates)
            self._digests[tenant_id] = number, digests
        self._digests.move_to_end(tenant_id)
        if len(self._digests) > MAX_TENANTS:
            self._digests.popitem(last=False)
        return CandidateList(
            version=version,
            candidates=None if version == known_version else _bounded(candidates or ()),
            resident_digests=sorted(digests & self._residency.ready(self._boot_clock_s())),
        )


def _bounded(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, with as many of each one's first prompts as its share of a message holds."""
    share = _MAX_PROMPT_BYTES // max(len(candidates), 1)
    bounded = []
    for candidate in candidates:
        prompts: list[str] = []
        left = share
        for prompt in candidate.example_prompts:
            left -= len(prompt.encode())
            if left < 0:
                break
            prompts.append(prompt)
        bounded.append(replace(candidate, example_prompts=tuple(prompts)))
    return bounded
