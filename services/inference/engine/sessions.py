"""Which conversations' KV blocks are held between two of their requests. Pure: time is passed in.

A session holds the published blocks of its newest answered conversation, so that they stay however
much others compute meanwhile. Bounds in number, tokens and age keep that small, and all of it gives
way before a sequence would lack blocks: the session that was unused for longest among the tenants
that hold at least their even share. So no tenant keeps its sessions by making many, and none loses
its only one to somebody who holds more. A hold changes nothing about who may find a block: the keys
of prefix_cache.py say that, and a session is found under its tenant alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from services.inference.engine.kv_blocks import KvBlockPool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Bounds of what is held; shares are of all KV blocks."""

    max_per_tenant: int = 8
    max_sessions: int = 512
    """Of all tenants: to choose one that gives way, each tenant is looked at."""
    tenant_share: float = 0.25
    total_share: float = 0.5
    max_age_s: float = 600.0
    """Since its last request."""


@dataclass(slots=True)
class Session:
    """One kept conversation."""

    blocks: Sequence[int]
    digests: frozenset[str]
    """Adapters its tokens ran with."""
    last_used_s: float


@dataclass(slots=True)
class TenantSessions:
    """Those of one tenant."""

    sessions: dict[str, Session] = field(default_factory=dict)
    """By name, the one unused for longest first."""
    num_holds: Counter[int] = field(default_factory=Counter)
    """How many of them hold a block; they may begin alike."""


class Sessions:
    """Takes over holds on blocks and gives them back."""

    def __init__(self, blocks: KvBlockPool, limits: SessionLimits) -> None:
        self._blocks = blocks
        self._limits = limits
        self._max_tenant_blocks = int(limits.tenant_share * blocks.num_blocks)
        self._max_blocks = int(limits.total_share * blocks.num_blocks)
        self._tenants: dict[str, TenantSessions] = {}
        self.num_sessions = 0
        self.num_blocks = 0
        """Blocks held, each counted once."""
        self.next_expiry_s = math.inf
        """Nothing is too old before this time."""

    @property
    def num_tokens(self) -> int:
        """Tokens in the blocks held."""
        return self.num_blocks * self._blocks.block_size

    def touch(self, tenant_id: str, name: str, now_s: float) -> None:
        """Says that a request has come for a session, if it is kept."""
        tenant = self._tenants.get(tenant_id)
        if tenant is not None and name in tenant.sessions:
            session = tenant.sessions.pop(name)
            session.last_used_s = now_s
            tenant.sessions[name] = session

    def keep(
        self,
        tenant_id: str,
        name: str,
        blocks: Sequence[int],
        digests: Collection[str],
        now_s: float,
    ) -> None:
        """Takes over a hold on the blocks of a conversation, in place of what the session held.

        Of a conversation beyond the tenant's bound the start is kept.
        """
        num_kept = min(len(blocks), self._max_tenant_blocks, self._max_blocks)
        self._blocks.free(blocks[num_kept:])
        self._drop(tenant_id, name)
        if num_kept == 0:
            return
        tenant = self._tenants.setdefault(tenant_id, TenantSessions())
        tenant.sessions[name] = Session(blocks[:num_kept], frozenset(digests), now_s)
        self.num_sessions += 1
        self.num_blocks -= len(tenant.num_holds)
        tenant.num_holds.update(blocks[:num_kept])
        self.num_blocks += len(tenant.num_holds)
        self.next_expiry_s = min(self.next_expiry_s, now_s + self._limits.max_age_s)
        while (
            len(tenant.sessions) > self._limits.max_per_tenant
            or len(tenant.num_holds) > self._max_tenant_blocks
        ):
            self._drop(tenant_id, next(iter(tenant.sessions)))
        while self.num_blocks > self._max_blocks or self.num_sessions > self._limits.max_sessions:
            self._drop_one()

    def expire(self, now_s: float) -> None:
        """Gives back what nobody has come for in `max_age_s`."""
        if now_s < self.next_expiry_s:
            return
        max_age_s = self._limits.max_age_s
        for tenant_id, tenant in list(self._tenants.items()):
            for name, session in list(tenant.sessions.items()):
                if now_s - session.last_used_s < max_age_s:
                    break
                self._drop(tenant_id, name)
        self.next_expiry_s = min(map(self._oldest_s, self._tenants), default=math.inf) + max_age_s

    def give_way(self, num_blocks: int) -> bool:
        """Gives back until so many blocks are free; False when there are not even so many."""
        while self._blocks.num_free < num_blocks and self._tenants:
            self._drop_one()
        return self._blocks.num_free >= num_blocks

    def forget(self, tenant_id: str, name: str) -> int:
        """Drops a session, or all of a tenant where the name is empty; returns how many.

        None of the blocks its requests computed are found from then on, held or not, but for those
        another session of the tenant holds. With an empty name none of the tenant are.
        """
        tenant = self._tenants.get(tenant_id, TenantSessions())
        names = [name] if name else list(tenant.sessions)
        dropped = [tenant.sessions[each].blocks for each in names if each in tenant.sessions]
        blocks = self._blocks.published_by(tenant_id, name).union(*dropped)
        for each in names:
            self._drop(tenant_id, each)
        self._blocks.withdraw(blocks - tenant.num_holds.keys())
        return len(dropped)

    def drop_adapters(self, digests: Collection[str]) -> None:
        """Gives back what ran with one of these adapters, which are gone."""
        for tenant_id, tenant in list(self._tenants.items()):
            for name, session in list(tenant.sessions.items()):
                if not session.digests.isdisjoint(digests):
                    self._drop(tenant_id, name)

    def _drop_one(self) -> None:
        even_share = self.num_blocks / len(self._tenants)
        tenants = [
            tenant_id
            for tenant_id, tenant in self._tenants.items()
            if len(tenant.num_holds) >= even_share
        ]
        tenant_id = min(tenants, key=self._oldest_s)
        self._drop(tenant_id, next(iter(self._tenants[tenant_id].sessions)))

    def _oldest_s(self, tenant_id: str) -> float:
        return next(iter(self._tenants[tenant_id].sessions.values())).last_used_s

    def _drop(self, tenant_id: str, name: str) -> None:
        tenant = self._tenants.get(tenant_id)
        session = tenant.sessions.pop(name, None) if tenant is not None else None
        if tenant is None or session is None:
            return
        self.num_sessions -= 1
        self.num_blocks -= len(tenant.num_holds)
        tenant.num_holds -= Counter(session.blocks)
        self.num_blocks += len(tenant.num_holds)
        if not tenant.sessions:
            del self._tenants[tenant_id]
        self._blocks.free(session.blocks)
