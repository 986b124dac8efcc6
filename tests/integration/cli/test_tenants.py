"""`edgelora tenants` against a real gateway: what it does, says and saves."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from edgelora.cli.main import run
from edgelora.client import EdgeLoraClient
from edgelora.errors import UnauthenticatedError
from tests.integration.adapter_store.store_process import StoreProcess
from tests.support.adapter_files import good_adapter
from tests.support.gateway_bench import GatewayBench, gateway_bench

pytestmark = pytest.mark.integration


class Operator:
    """`edgelora tenants ...` at the admin socket of a bench."""

    def __init__(self, gateway: GatewayBench, home, capsys) -> None:
        self.gateway = gateway
        self.home = home
        self._capsys = capsys
        self.err = ""

    async def __call__(self, *arguments: str, status: int = 0) -> str:
        where = ("--admin-address", self.gateway.address("admin"), "--home", str(self.home))
        assert await asyncio.to_thread(run, ["tenants", *arguments, *where]) == status
        out, self.err = self._capsys.readouterr()
        return out

    async def json(self, *arguments: str):
        return json.loads(await self(*arguments, "--json"))

    async def opens(self, key: str) -> bool:
        async with EdgeLoraClient(self.gateway.address("gateway"), key) as client:
            try:
                await client.status()
            except UnauthenticatedError:
                return False
        return True


@pytest.fixture
async def operator(tmp_path, capsys) -> AsyncIterator[Operator]:
    with capture_logs():  # of the services in this process, which would be mixed with the output
        async with gateway_bench() as gateway:
            store = StoreProcess(tmp_path, SEAL_KEY_FILE=str(gateway.directory / "seal.key"))
            try:
                await store.start()
                await gateway.start_worker()
                gateway.start_scheduler(STORE_ADDRESS=store.address)
                await gateway.start_gateway(STORE_ADDRESS=store.address, POWER_WATTS="5")
                yield Operator(gateway, tmp_path / "home", capsys)
            finally:
                store.close()


async def test_a_tenant_is_made_changed_shown_and_revoked(operator):
    made = await operator.json(
        *("add", "garage", "--role", "user", "--max-concurrent", "2"),
        *("--requests-per-minute", "60", "--max-adapters", "0", "--adapter-bytes", "1MiB"),
    )
    assert (made["role"], made["max_adapters"], made["max_adapter_bytes"]) == ("user", 0, 2**20)
    path = operator.home / "keys" / "garage.key"
    assert made["api_key_file"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = path.read_text().strip()
    assert await operator.opens(key)

    changed = await operator.json("set", "garage", "--role", "trusted")
    assert (changed["role"], changed["max_requests_per_minute"]) == ("trusted", 60)
    spiffe_id = "spiffe://home/tenant/garage"
    await operator("set", "garage", "--spiffe-id", spiffe_id)
    shown = await operator("show", "garage")
    assert spiffe_id in shown
    assert (await operator.json("set", "garage", "--spiffe-id", ""))["spiffe_id"] is None
    assert "trusted" in await operator("list")

    assert "revoked tenant garage" in await operator("revoke", "garage")
    assert not await operator.opens(key)
    assert (await operator.json("list"))[0]["revoked_at"]


async def test_keys_are_rotated_listed_and_revoked(operator):
    first = (await operator("add", "car", "--show-key")).strip()
    assert first.startswith("el_car_")
    assert "made key 2 of car" in await operator("keys", "rotate", "car", "--overlap", "1h")
    second = (operator.home / "keys" / "car.key").read_text().strip()
    third = (await operator.json("keys", "add", "car", "--show-key"))["api_key"]
    assert [await operator.opens(key) for key in (first, second, third)] == [True] * 3
    keys = await operator.json("keys", "list", "car")
    assert [(key["key_id"], key["expires_at"] is None) for key in keys] == [
        ("3", True),
        ("2", True),
        ("1", False),
    ]
    await operator("keys", "revoke", "car", "2")
    await operator("keys", "rotate", "car", "--overlap", "0s")
    fourth = (operator.home / "keys" / "car.key").read_text().strip()
    assert [await operator.opens(key) for key in (first, second, third, fourth)] == [
        *(False, False, False),
        True,
    ]
    for line in (await operator("keys", "list", "car"), await operator("list")):
        for key in (first, second, third, fourth):
            assert key.rpartition("_")[2] not in line


async def test_adapters_are_granted_and_withdrawn_by_name(operator, tmp_path):
    directory = tmp_path / "letters"
    directory.mkdir()
    files = good_adapter(seed=1)
    (directory / "adapter_config.json").write_bytes(files.config)
    (directory / "adapter_model.safetensors").write_bytes(files.weights)
    owner = await operator.gateway.client("a")
    await operator.gateway.client("b")
    digest = (await owner.register_adapter(directory, alias="letters")).adapter.digest

    assert "nothing is granted" in await operator("grants")
    assert "b may use post" in await operator("grant", "a", "letters", "b", "--alias", "post")
    expected = {"tenant_id": "b", "alias": "post", "owner_tenant_id": "a", "digest": digest}
    assert await operator.json("grants", "b") == [expected]
    assert digest in await operator("grants")
    await operator("withdraw", "b", "nothing", status=1)
    assert "no adapter is granted under this name" in operator.err
    assert digest in await operator("withdraw", "b", "post")
    assert await operator.json("grants") == []
    await operator("withdraw", "b", digest, status=1)
    assert "there is no such grant" in operator.err


async def test_usage_is_told_for_one_and_for_all(operator):
    assert "nothing has been used yet" in await operator("usage")
    client = await operator.gateway.client("acme")
    async for _ in client.generate("Hi"):
        pass
    (total,) = await operator.json("usage", "acme")
    assert (total["num_requests"], total["num_output_tokens"]) == (1, 3)
    assert total["energy_joules"] is not None
    assert "acme" in await operator("usage")


async def test_what_is_wrong_is_one_line(operator):
    for arguments, status, says in (
        (("set", "garage"), 2, "nothing to change"),
        (("add", "garage", "--role", "king"), 2, "'user', 'author', 'trusted'"),
        (("add", "garage", "--adapter-bytes", "lots"), 2, "500MiB"),
        (("keys", "rotate", "garage", "--overlap", "soon"), 2, "10m, 24h or 7d"),
        (("add", "no such name"), 1, "letters, digits"),
        (("add", "garage", "--spiffe-id", "garage"), 1, "spiffe://TRUST-DOMAIN"),
        (("show", "nobody"), 1, "no such tenant"),
        (("keys", "list", "nobody"), 1, "no such tenant"),
        (("grant", "x", "y", "z"), 1, "names no tenant"),
        (("usage", "nobody"), 1, "no such tenant"),
    ):
        await operator(*arguments, status=status)
        assert says in operator.err, arguments
        assert "Traceback" not in operator.err
