"""From metadata to a proven caller."""

from __future__ import annotations

import pytest

from edgelora.errors import UnauthenticatedError
from services.chassis.claims import open_claim
from services.chassis.sealing import Sealer
from services.gateway.authentication import Authentication
from services.gateway.failure_throttle import FailureThrottle
from services.gateway.tenant_registry import TenantRegistry
from tests.support.fake_clock import FakeClock

KEY = b"a seal key of at least 32 bytes!"


class Door:
    """An Authentication whose clock stands still and whose sleeps are noted."""

    def __init__(self, registry: TenantRegistry) -> None:
        self.clock = FakeClock(50.0)
        self.sleeps: list[float] = []
        self.registry = registry
        self._authentication = Authentication(
            registry, Sealer(KEY), boot_clock=self.clock, sleep=self._sleep
        )

    async def enter(self, *metadata, peer: str = "ipv4:10.0.0.7:1234"):
        return await self._authentication.authenticate(
            metadata, peer=peer, request_id="r1", claim_s=10.0
        )

    async def refusal(self, *metadata, peer: str = "ipv4:10.0.0.7:1234") -> UnauthenticatedError:
        with pytest.raises(UnauthenticatedError) as caught:
            await self.enter(*metadata, peer=peer)
        return caught.value

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)


@pytest.fixture
def door(tmp_path):
    registry = TenantRegistry(tmp_path / "tenants.sqlite")
    yield Door(registry)
    registry.close()


async def test_a_right_key_gives_a_claim_that_expires(door):
    _, key = door.registry.create("acme")
    caller = await door.enter(("authorization", f"Bearer {key}"), ("x-tenant-id", "other"))
    assert caller.tenant.tenant_id == "acme"
    claim = open_claim(Sealer(KEY), caller.claim, 59.9)
    assert (claim.tenant_id, claim.request_id, claim.expires_at_boot_s) == ("acme", "r1", 60.0)
    assert (claim.max_adapters, claim.max_adapter_bytes) == (2000, 4 * 2**30)
    with pytest.raises(UnauthenticatedError):
        open_claim(Sealer(KEY), caller.claim, 60.0)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_case_insensitive(door, scheme):
    _, key = door.registry.create("acme")
    assert (await door.enter(("authorization", f"{scheme} {key}"))).tenant.tenant_id == "acme"


async def test_one_failure_after_another_waits_longer_and_right_keys_never_T39(door):
    _, key = door.registry.create("acme")
    messages = {(await door.refusal()).message for _ in range(10)}
    assert door.sleeps == []
    for _ in range(30):
        messages.add((await door.refusal(("authorization", "Bearer el_acme_bad"))).message)
    assert len(messages) == 1
    assert door.sleeps == sorted(door.sleeps)
    assert door.sleeps[0] > 0
    assert door.sleeps[-1] == pytest.approx(2.0)
    # Neither the tenant from the same address nor a stranger from another pays for it.
    door.sleeps.clear()
    await door.enter(("authorization", f"Bearer {key}"))
    await door.refusal(peer="ipv4:10.0.0.8:1234")
    assert door.sleeps == []


async def test_another_port_is_the_same_source(door):
    for port in range(10):
        await door.refusal(peer=f"ipv4:10.0.0.7:{port}")
    await door.refusal(peer="ipv4:10.0.0.7:999")
    assert len(door.sleeps) == 1


def test_the_throttle_forgets_with_time_and_has_a_bounded_table():
    throttle = FailureThrottle(burst=2, spacing_s=1.0, max_delay_s=3.0)
    assert [throttle.delay_s("a", 0.0) for _ in range(7)] == [0, 0, 1, 2, 3, 3, 3]
    assert throttle.delay_s("a", 100.0) == 0
    for index in range(10_000):
        throttle.delay_s(f"s{index}", 100.0)
    assert len(throttle._busy_until_s) == 4096
