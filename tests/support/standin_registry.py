"""A stand-in for the whole adapter store, written from its proto: it keeps uploads in a table."""

from __future__ import annotations

import asyncio
import hashlib

from edgelora.errors import AdapterNotFoundError, AlreadyExistsError
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import Adapter, AdapterAlias
from services.chassis.claims import open_claim
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.standin_store import StandinStore


class StandinRegistry(StandinStore):
    """Each tenant's adapters and aliases."""

    def __init__(self, sealer: Sealer) -> None:
        super().__init__(sealer)
        self.adapters: dict[str, dict[str, Adapter]] = {}
        self.aliases: dict[str, dict[str, AdapterAlias]] = {}
        self.uploads_ended = asyncio.Queue()
        """"whole" or "cut" for each upload."""

    async def RegisterAdapter(self, request_iterator, context):
        outcome = "cut"

        def end(_):
            self.uploads_ended.put_nowait(outcome)

        context.add_done_callback(end)
        first = await anext(aiter(request_iterator))
        header = first.header
        tenant = self._tenant(header.claim)
        files = {pb.ADAPTER_FILE_CONFIG: b"", pb.ADAPTER_FILE_WEIGHTS: b""}
        async for message in request_iterator:
            files[message.chunk.file] += message.chunk.data
        assert len(files[pb.ADAPTER_FILE_CONFIG]) == header.config_size_bytes
        assert len(files[pb.ADAPTER_FILE_WEIGHTS]) == header.weights_size_bytes
        digest = "sha256:" + hashlib.sha256(b"".join(files.values())).hexdigest()
        owned = self.adapters.setdefault(tenant, {})
        is_new = digest not in owned
        owned[digest] = Adapter(digest=digest, description=header.description)
        self.digests[tenant, digest] = digest
        response = pb.AdapterStoreServiceRegisterAdapterResponse(
            adapter=owned[digest], is_new=is_new
        )
        if header.alias:
            response.alias.CopyFrom(self._point(tenant, header.alias, digest))
        outcome = "whole"
        return response

    async def ListAdapters(self, request, context):
        tenant = self._tenant(request.claim)
        return pb.AdapterStoreServiceListAdaptersResponse(
            adapters=self.adapters.get(tenant, {}).values(),
            aliases=self.aliases.get(tenant, {}).values(),
        )

    async def SetAdapterAlias(self, request, context):
        tenant = self._tenant(request.claim)
        if request.digest not in self.adapters.get(tenant, {}):
            raise AdapterNotFoundError("there is no such adapter", field="digest")
        old = self.aliases.get(tenant, {}).get(request.name)
        generation = old.generation if old else 0
        if request.HasField("expected_generation") and request.expected_generation != generation:
            raise AlreadyExistsError("the alias has changed", field="expected_generation")
        return pb.AdapterStoreServiceSetAdapterAliasResponse(
            alias=self._point(tenant, request.name, request.digest)
        )

    async def DeleteAdapter(self, request, context):
        tenant = self._tenant(request.claim)
        aliases = self.aliases.get(tenant, {})
        if request.adapter in aliases:
            del aliases[request.adapter], self.digests[tenant, request.adapter]
            return pb.AdapterStoreServiceDeleteAdapterResponse(removed_aliases=[request.adapter])
        if self.adapters.get(tenant, {}).pop(request.adapter, None) is None:
            raise AdapterNotFoundError("there is no such adapter", field="adapter")
        del self.digests[tenant, request.adapter]
        gone = [name for name, alias in aliases.items() if alias.digest == request.adapter]
        for name in gone:
            del aliases[name], self.digests[tenant, name]
        return pb.AdapterStoreServiceDeleteAdapterResponse(
            removed_aliases=gone, removed_digest=request.adapter
        )

    def _tenant(self, claim) -> str:
        return open_claim(self._sealer, claim, boot_clock_s()).tenant_id

    def _point(self, tenant: str, name: str, digest: str) -> AdapterAlias:
        aliases = self.aliases.setdefault(tenant, {})
        generation = aliases[name].generation + 1 if name in aliases else 1
        aliases[name] = AdapterAlias(name=name, digest=digest, generation=generation)
        self.digests[tenant, name] = digest
        return aliases[name]
