"""A stand-in for the whole adapter store, written from its proto: it keeps uploads in a table."""

from __future__ import annotations

import asyncio
import hashlib
import json

from edgelora.errors import (
    AdapterNotFoundError,
    AdapterRejectedError,
    AlreadyExistsError,
    EdgeLoraError,
    InvalidRequestError,
)
from edgelora.v1 import adapter_store_service_pb2 as pb
from edgelora.v1.adapter_pb2 import (
    Adapter,
    AdapterAlias,
    AdapterLineage,
    AdapterUsage,
    TierStatistics,
    TransferProgress,
    WarmUpState,
)
from edgelora.v1.encoding_pb2 import Task
from services.chassis.claims import open_claim
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.standin_store import StandinStore


class StandinRegistry(StandinStore):
    """Each tenant's adapters, aliases and habits."""

    def __init__(self, sealer: Sealer) -> None:
        super().__init__(sealer)
        self.adapters: dict[str, dict[str, Adapter]] = {}
        self.aliases: dict[str, dict[str, AdapterAlias]] = {}
        self.uploads_ended = asyncio.Queue()
        """"whole" or "cut" for each upload."""
        self.probes: list[bytes] = []
        """What each upload brought to be measured on."""
        self.cards: list[bytes] = []
        """The card of each upload."""
        self.tiers = TierStatistics()
        self.habits: dict[str, WarmUpState] = {}
        self.package_bytes = 3
        """Bytes of every package: installing sends progress after each."""
        self.hold_after: int | None = None
        """Hold an installation for ever after so many bytes."""
        self.install_failure: EdgeLoraError | None = None
        self.installs: asyncio.Queue[pb.AdapterStoreServiceInstallAdapterRequest] = asyncio.Queue()
        """Every installation, when it began."""
        self.installs_ended = asyncio.Queue()
        """"whole" or "cut" for each installation."""
        self.num_listed: list[int] = []
        """Adapters on each page that was asked for."""

    async def RegisterAdapter(self, request_iterator, context):
        outcome = "cut"

        def end(_):
            self.uploads_ended.put_nowait(outcome)

        context.add_done_callback(end)
        first = await anext(aiter(request_iterator))
        header = first.header
        tenant = self._tenant(header.claim)
        kinds = ("CONFIG", "WEIGHTS", "PROBE", "CARD")
        files = {pb.AdapterFile.Value(f"ADAPTER_FILE_{kind}"): b"" for kind in kinds}
        async for message in request_iterator:
            files[message.chunk.file] += message.chunk.data
        if [len(data) for data in files.values()] != [
            header.config_size_bytes,
            header.weights_size_bytes,
            header.probe_size_bytes,
            header.card_size_bytes,
        ]:
            raise AdapterRejectedError("the upload ended before its files did")
        self.probes.append(files.pop(pb.ADAPTER_FILE_PROBE))
        self.cards.append(files.pop(pb.ADAPTER_FILE_CARD))
        response = self._add(tenant, b"".join(files.values()), header, "upload")
        stored = self.adapters[tenant][response.adapter.digest]
        stored.version_of_digest = header.version_of_digest
        if self.cards[-1]:
            stored.example_prompts.extend(json.loads(self.cards[-1])["examples"])
        response.adapter.CopyFrom(stored)
        outcome = "whole"
        return response

    def add_encoder_adapter(self, tenant: str, alias: str) -> str:
        """An adapter for the encoder, as if it had been registered; returns its digest."""
        digest = "sha256:" + hashlib.sha256(f"{tenant}/{alias}".encode()).hexdigest()
        adapter = Adapter(digest=digest, task=Task.TASK_ENCODE)
        self.adapters.setdefault(tenant, {})[digest] = adapter
        self.digests[tenant, digest] = digest
        self.encoders.add(digest)
        self._point(tenant, alias, digest)
        return digest

    async def InstallAdapter(self, request, context):
        outcome = "cut"

        def end(_):
            self.installs_ended.put_nowait(outcome)

        context.add_done_callback(end)
        self.installs.put_nowait(request)
        tenant = self._tenant(request.claim)
        if self.install_failure is not None:
            raise self.install_failure
        for received in range(1, self.package_bytes + 1):
            yield pb.AdapterStoreServiceInstallAdapterResponse(
                progress=TransferProgress(received_bytes=received, total_bytes=self.package_bytes)
            )
            if received == self.hold_after:
                await asyncio.Event().wait()
        outcome = "whole"
        yield pb.AdapterStoreServiceInstallAdapterResponse(
            registered=self._add(tenant, request.package.encode(), request, request.package)
        )

    async def ListAdapters(self, request, context):
        tenant = self._tenant(request.claim)
        owned = list(self.adapters.get(tenant, {}).values())
        if not (request.page_token or "0").isdecimal():
            raise InvalidRequestError("must be from the page before", field="page_token")
        start = int(request.page_token or 0)
        end = start + (request.page_size or 1000)
        page = owned[start:end]
        self.num_listed.append(len(page))
        digests = {adapter.digest for adapter in page}
        return pb.AdapterStoreServiceListAdaptersResponse(
            adapters=page,
            aliases=[
                alias for alias in self.aliases.get(tenant, {}).values() if alias.digest in digests
            ],
            next_page_token=str(end) if end < len(owned) else "",
        )

    async def ListCandidates(self, request, context):
        self._tenant(request.claim)
        return pb.ListCandidatesResponse(version="none")

    async def GetAdapter(self, request, context):
        tenant = self._tenant(request.claim)
        adapter = self._find(tenant, request.adapter)
        adapter.usage.CopyFrom(AdapterUsage(num_memory_hits=4))
        return pb.AdapterStoreServiceGetAdapterResponse(
            adapter=adapter,
            aliases=[
                alias
                for alias in self.aliases.get(tenant, {}).values()
                if alias.digest == adapter.digest
            ],
        )

    async def PinAdapter(self, request, context):
        adapter = self._find(self._tenant(request.claim), request.adapter)
        adapter.is_pinned = request.is_pinned
        return pb.AdapterStoreServicePinAdapterResponse(adapter=adapter)

    async def SetWarmUp(self, request, context):
        tenant = self._tenant(request.claim)
        state = self.habits.setdefault(tenant, WarmUpState(is_enabled=True, num_uses=5))
        if request.HasField("is_enabled"):
            state.is_enabled = request.is_enabled
        if request.forget:
            state.num_uses = 0
        return pb.AdapterStoreServiceSetWarmUpResponse(state=state)

    async def GetTiers(self, request, context):
        return pb.GetTiersResponse(tiers=self.tiers)

    async def SetAdapterAlias(self, request, context):
        tenant = self._tenant(request.claim)
        if request.digest not in self.adapters.get(tenant, {}):
            raise AdapterNotFoundError("there is no such adapter", field="digest")
        self._check_generation(tenant, request.name, request)
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

    def _find(self, tenant: str, name: str) -> Adapter:
        alias = self.aliases.get(tenant, {}).get(name)
        adapter = self.adapters.get(tenant, {}).get(alias.digest if alias else name)
        if adapter is None:
            raise AdapterNotFoundError("there is no such adapter", field="adapter")
        return adapter

    def _add(self, tenant: str, content: bytes, wanted, source: str):
        """Registers an adapter as an upload's header or an installation asks."""
        if wanted.alias:
            self._check_generation(tenant, wanted.alias, wanted)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        owned = self.adapters.setdefault(tenant, {})
        is_new = digest not in owned
        old = self.aliases.get(tenant, {}).get(wanted.alias)
        owned[digest] = Adapter(
            digest=digest,
            description=wanted.description,
            certificate_digest="sha256:" + "c" * 64,
            lineage=AdapterLineage(source=source, parent_digest=old.digest if old else ""),
        )
        self.digests[tenant, digest] = digest
        response = pb.AdapterStoreServiceRegisterAdapterResponse(
            adapter=owned[digest], is_new=is_new
        )
        if wanted.alias:
            response.alias.CopyFrom(self._point(tenant, wanted.alias, digest))
        return response

    def _check_generation(self, tenant: str, name: str, request) -> None:
        old = self.aliases.get(tenant, {}).get(name)
        generation = old.generation if old else 0
        if request.HasField("expected_generation") and request.expected_generation != generation:
            raise AlreadyExistsError("the alias has changed", field="expected_generation")

    def _describe(self, tenant: str, resolved) -> None:
        adapter = self.adapters.get(tenant, {}).get(resolved.digest)
        if adapter is None:
            return
        alias = self.aliases.get(tenant, {}).get(resolved.alias)
        resolved.generation = alias.generation if alias else 0
        resolved.certificate_digest = adapter.certificate_digest
        resolved.lineage.CopyFrom(adapter.lineage)

    def _point(self, tenant: str, name: str, digest: str) -> AdapterAlias:
        aliases = self.aliases.setdefault(tenant, {})
        generation = aliases[name].generation + 1 if name in aliases else 1
        aliases[name] = AdapterAlias(name=name, digest=digest, generation=generation)
        self.digests[tenant, name] = digest
        for adapter in self.adapters[tenant].values():
            adapter.aliases[:] = sorted(
                alias.name for alias in aliases.values() if alias.digest == adapter.digest
            )
        return aliases[name]
