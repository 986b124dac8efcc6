"""A stand-in for the adapter store, written from its proto: it resolves names from a table."""

from __future__ import annotations

from edgelora.errors import AdapterIncompatibleError, AdapterNotFoundError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import AdapterState, ResolvedAdapter
from edgelora.v1.adapter_store_service_pb2_grpc import (
    AdapterStoreServiceServicer,
    add_AdapterStoreServiceServicer_to_server,
)
from edgelora.v1.encoding_pb2 import Task
from services.chassis.claims import open_claim
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.server import ServiceHost


class StandinStore(AdapterStoreServiceServicer):
    """Adapters of each tenant by alias, and the workers said to hold them."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.digests: dict[tuple[str, str], str] = {}
        self.ranks: dict[str, int] = {}
        """Digest -> rank; 16 where none is given."""
        self.versions: dict[str, list[str]] = {}
        """Digest -> its lower-rank versions."""
        self.encoders: set[str] = set()
        """Digests of adapters for the encoder; the others are for generating."""
        self.resident_on: dict[str, list[str]] = {}
        self.num_calls = 0
        self.users: list[str] = []
        """Who asked, for each resolution."""
        self.tasks: list[int] = []
        """What for, likewise."""

    async def ResolveAdapters(self, request, context):
        self.num_calls += 1
        self.users.append(request.user)
        self.tasks.append(request.task)
        claim = open_claim(self._sealer, request.claim, boot_clock_s())
        response = pb.ResolveAdaptersResponse()
        for index, selection in enumerate(request.adapters):
            digest = self.digests.get((claim.tenant_id, selection.adapter))
            if digest is None:
                field = f"adapters[{index}].adapter"
                raise AdapterNotFoundError(f"you have no such adapter ({field})", field=field)
            if (digest in self.encoders) != (request.task == Task.TASK_ENCODE):
                field = f"adapters[{index}].adapter"
                raise AdapterIncompatibleError(f"{field} is for the other model", field=field)
            strength = selection.strength if selection.HasField("strength") else 1.0
            state = AdapterState.ADAPTER_STATE_REGISTERED
            asked = digest
            if request.max_rank and self._rank(asked) > request.max_rank:
                low = [v for v in self.versions.get(asked, ()) if self._rank(v) <= request.max_rank]
                digest = max(low, key=self._rank, default=asked)
            resolved = ResolvedAdapter(
                digest=digest,
                strength=strength,
                alias="" if selection.adapter == asked else selection.adapter,
                state=state,
                rank=self._rank(digest),
                version_of_digest=asked if digest != asked else "",
            )
            self._describe(claim.tenant_id, resolved)
            response.adapters.append(resolved)
        asked = {adapter.digest for adapter in response.adapters}
        for worker, held in self.resident_on.items():
            if num_resident := len(asked & set(held)):
                response.residencies.add(worker=worker, num_resident=num_resident)
        return response

    def _rank(self, digest: str) -> int:
        return self.ranks.get(digest, 16)

    def _describe(self, tenant: str, resolved: ResolvedAdapter) -> None:
        """Adds what else is known of a resolved adapter: nothing here."""


def host_store(store: StandinStore, address: str) -> ServiceHost:
    """A host that serves the stand-in."""
    host = ServiceHost([address])
    host.add(add_AdapterStoreServiceServicer_to_server, store, "edgelora.v1.AdapterStoreService")
    return host
