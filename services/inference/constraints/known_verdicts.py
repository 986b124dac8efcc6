"""Verdicts that were given before: most requests bring a grammar again. Pure."""

from __future__ import annotations

from collections import OrderedDict

from services.inference.constraints.verdict import Verdict

_MAX_OF_TENANT = 64
_MAX_TENANTS = 256


class KnownVerdicts:
    """The newest of each tenant, so that nobody pushes out another's by bringing many."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[bytes, Verdict]] = OrderedDict()
        """By hash of the grammar; the one used last is the last, of the tenants too."""

    def find(self, tenant_id: str, grammar_hash: bytes) -> Verdict | None:
        """What was found of a grammar of this tenant, if that is known."""
        verdicts = self._tenants.get(tenant_id)
        return None if verdicts is None else verdicts.get(grammar_hash)

    def note(self, tenant_id: str, grammar_hash: bytes, verdict: Verdict) -> None:
        """Remembers a verdict, or that it was used again."""
        verdicts = self._tenants.setdefault(tenant_id, OrderedDict())
        verdicts[grammar_hash] = verdict
        verdicts.move_to_end(grammar_hash)
        self._tenants.move_to_end(tenant_id)
        if len(verdicts) > _MAX_OF_TENANT:
            verdicts.popitem(last=False)
        if len(self._tenants) > _MAX_TENANTS:
            self._tenants.popitem(last=False)
