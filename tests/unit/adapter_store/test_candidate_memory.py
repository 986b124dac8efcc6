"""What is remembered of tenants' candidates: bounded, and right when it was forgotten."""

from __future__ import annotations

from contextlib import closing

from services.adapter_store.candidates import MAX_TENANTS, Candidates
from services.adapter_store.registry.registry import Registry
from services.adapter_store.registry.writer import AdapterQuota, AliasWish, RegistryWriter
from services.adapter_store.residency import Residency, SlotReport, WorkerReport
from tests.unit.adapter_store.test_registry import CERTIFICATE, digest, manifest


class CountingRegistry(Registry):
    """Counts the candidates it reads."""

    num_reads = 0

    def candidates(self, *arguments):
        self.num_reads += 1
        return super().candidates(*arguments)


def test_the_tenant_that_asked_longest_ago_is_read_again(tmp_path):
    path = tmp_path / "registry"
    with closing(RegistryWriter(path)) as writer, closing(CountingRegistry(path)) as registry:
        alias = AliasWish(name="mail", may_replace=False, expected_generation=None)
        writer.add(manifest(1, "a"), CERTIFICATE, alias=alias, quota=AdapterQuota(max_adapters=1))
        residency = Residency()
        slot = SlotReport(digest=digest(1), num_references=0, last_used_s=0.0, is_loading=False)
        residency.report(
            WorkerReport(
                worker="w",
                incarnation=1,
                reported_at_s=0.0,
                slots={slot.digest: slot},
                refused=frozenset(),
            )
        )
        candidates = Candidates(registry, residency, digest(0), lambda: 0.0)
        version = candidates.of("a", "").version
        for number in range(MAX_TENANTS - 1):
            candidates.of(f"t{number}", "")
        known = candidates.of("a", version)
        assert (known.candidates, known.resident_digests) == (None, [digest(1)])
        assert registry.num_reads == MAX_TENANTS, "each once"
        for number in range(MAX_TENANTS):
            candidates.of(f"u{number}", "")
        again = candidates.of("a", version)
        assert (again.candidates, again.resident_digests) == (None, [digest(1)])
        assert registry.num_reads == 2 * MAX_TENANTS + 1
