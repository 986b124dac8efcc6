"""Changes of grants: each a transaction, durable when it returns."""

from __future__ import annotations

from edgelora.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
)
from services.adapter_store.names import adapter_not_found
from services.adapter_store.registry.content_writer import ContentWriter
from services.adapter_store.registry.grants import MAX_GRANTS, Grant
from services.adapter_store.registry.manifest import Alias
from services.adapter_store.transactions import transaction


class GrantWriter(ContentWriter):
    """The part of RegistryWriter that the operator asks for."""

    def grant(
        self, owner_id: str, reference: str, tenant_id: str, name: str | None, now_s: float
    ) -> Grant:
        """Lets a tenant use an adapter of another one; again it may only change the name.

        `reference`: alias or digest of the owner's own. Raises AdapterNotFoundError,
        InvalidRequestError and AlreadyExistsError.
        """
        with transaction(self._connection):
            owned = self.find_own(owner_id, reference)
            if owned is None:
                raise adapter_not_found("adapter")
            digest = owned[0].digest
            if tenant_id == owner_id or self.get(tenant_id, digest) is not None:
                raise AlreadyExistsError(
                    "the tenant has this adapter itself: it needs no grant", field="tenant_id"
                )
            known = self.find_granted(tenant_id, digest)
            if known is not None and known.grant.owner_id != owner_id:
                raise AlreadyExistsError(
                    "another owner's copy of this adapter is granted to the tenant: withdraw that "
                    "first",
                    field="owner_tenant_id",
                )
            if known is not None and known.grant.name == name:
                return known.grant
            if known is None and len(self.grants(tenant_id)) >= MAX_GRANTS:
                raise InvalidRequestError(
                    f"{MAX_GRANTS} adapters are granted to the tenant, the most allowed: withdraw "
                    "one first",
                    field="tenant_id",
                )
            if name is not None:
                self._check_free(tenant_id, name)
            if known is not None:
                self._end(known.grant)
            return self._insert(owner_id, digest, tenant_id, name, now_s)

    def withdraw(self, tenant_id: str, digest: str) -> Grant:
        """Ends a grant; returns what it was. Raises NotFoundError."""
        with transaction(self._connection):
            granted = self.find_granted(tenant_id, digest)
            if granted is None:
                raise NotFoundError("there is no such grant: list the grants", field="digest")
            self._note_change(tenant_id)
            self._end(granted.grant)
            return granted.grant

    def _insert(
        self, owner_id: str, digest: str, tenant_id: str, name: str | None, now_s: float
    ) -> Grant:
        self._note_change(tenant_id)
        self._connection.execute(
            "INSERT INTO grants (tenant, digest, owner, alias, generation, granted_at) "
            "VALUES (?1, ?2, ?3, ?4, 1 + "
            "coalesce((SELECT generation FROM removed_generations WHERE tenant = ?1), 0), ?5)",
            (tenant_id, digest, owner_id, name, now_s),
        )
        granted = self.find_granted(tenant_id, digest)
        assert granted is not None
        return granted.grant

    def _check_free(self, tenant_id: str, name: str) -> None:
        """Raises AlreadyExistsError when a name means something in a tenant's namespace."""
        if self.alias(tenant_id, name) is not None or self.find_granted(tenant_id, name):
            raise AlreadyExistsError(
                "the tenant has an adapter of this name: choose another", field="alias"
            )

    def _refuse_granted(self, tenant_id: str, reference: str) -> None:
        """Raises PermissionDeniedError when it is granted to the tenant, who may not change it."""
        if self.find_granted(tenant_id, reference) is not None:
            raise PermissionDeniedError(
                "this adapter was granted to you: you can use it, and only the operator can change "
                "or withdraw that",
                field="adapter",
            )

    def _end_grants_of(self, owner_id: str, digest: str) -> tuple[str, ...]:
        """Ends the grants of an owner's adapter; returns who held them."""
        ended = [grant for grant in self.grants_of(owner_id) if grant.digest == digest]
        for grant in ended:
            self._end(grant)
        return tuple(grant.tenant_id for grant in ended)

    def _end(self, grant: Grant) -> None:
        if grant.alias is not None:
            self._retire(grant.tenant_id, grant.alias)
        self._connection.execute(
            "DELETE FROM grants WHERE tenant = ? AND digest = ?", (grant.tenant_id, grant.digest)
        )

    def _retire(self, tenant_id: str, alias: Alias) -> None:
        """Keeps a later alias of the name from having a generation that this one had."""
        self._connection.execute(
            "INSERT INTO removed_generations (tenant, generation) VALUES (?, ?) "
            "ON CONFLICT (tenant) DO UPDATE SET generation = max(generation, excluded.generation)",
            (tenant_id, alias.generation),
        )
