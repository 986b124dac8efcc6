"""Stands in for the store's list of candidates: a sealed claim sees its own tenant's alone."""

from __future__ import annotations

from edgelora.errors import ServiceUnavailableError
from edgelora.v1.adapter_store_service_pb2 import ListCandidatesResponse, RouteCandidate
from services.chassis.claims import open_claim, seal_claim
from services.chassis.sealing import Sealer

_SEALER = Sealer(b"a seal key of at least 32 bytes!")


def claim_of(tenant_id: str):
    """A claim as the gateway makes it."""
    return seal_claim(_SEALER, tenant_id=tenant_id, request_id="r", expires_at_boot_s=60.0)


def digest_of(number: int) -> str:
    return f"sha256:{number:064x}"


class CandidateShelf:
    """Tenant -> digest -> candidate."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, RouteCandidate]] = {}
        self._versions: dict[str, int] = {}
        self.resident: set[str] = set()
        self.num_listed: list[int] = []
        """Candidates in each answer; None of them where they were known."""
        self.is_away = False

    def put(self, tenant_id: str, number: int, *examples: str, **fields) -> str:
        """Registers an adapter, or changes its card; returns its digest."""
        digest = digest_of(number)
        values = {"alias": f"a{number}", "lowest_rank": 8} | fields
        candidate = RouteCandidate(digest=digest, example_prompts=examples, **values)
        self._owned.setdefault(tenant_id, {})[digest] = candidate
        self._versions[tenant_id] = self._versions.get(tenant_id, 0) + 1
        return digest

    def delete(self, tenant_id: str, digest: str) -> None:
        del self._owned[tenant_id][digest]
        self._versions[tenant_id] += 1

    async def list_candidates(self, claim, version: str) -> ListCandidatesResponse:
        if self.is_away:
            raise ServiceUnavailableError("the adapter store does not answer: try again")
        tenant_id = open_claim(_SEALER, claim, 0.0).tenant_id
        owned = self._owned.get(tenant_id, {})
        current = f"v{self._versions.get(tenant_id, 0)}"
        listed = [] if version == current else list(owned.values())
        self.num_listed.append(len(listed))
        return ListCandidatesResponse(
            candidates=listed, version=current, resident_digests=sorted(self.resident & set(owned))
        )
