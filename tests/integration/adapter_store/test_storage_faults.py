"""Storage fails at every call that a registration, a replacement, a version with a card, a removal,
a restore or a start makes.

Afterwards there is the old state or the new one, never half of one: every blob that is referred to
is whole, none is left over, what was answered is true, and what was there goes on being served.

A store in one process, forked for every fault, goes through all calls in seconds; a real store
process then meets a few of the same faults over its socket. EDGELORA_STORE_FAULTS=all
(`make store-faults`, minutes) leaves nothing out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgelora.errors import EdgeLoraError, ResourcePressureError
from tests.integration.adapter_store.store_process import (
    SEAL_KEY,
    StoreClient,
    StoreProcess,
    eventually,
)
from tests.support.adapter_files import good_adapter
from tests.support.storage_faults import FAULTS, NO_FAULT, FaultSwitch, build_shim

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
IS_WHOLE = os.environ.get("EDGELORA_STORE_FAULTS") == "all"
DONE, REFUSED, KILLED = 0, 10, -9

SAMPLE: dict[str, dict[str, int]] = {
    "replace": {
        "killed": 1,
        "error, then killed": 1,
        "killed amid a write": 5,
        "power cut": 3,
        "power cut after the answer": 50,
        "error, then power cut": 7,
        "input/output error": 4,
        "failing disk": 9,
        "disk full": 7,
        "full for a moment": 9,
        "read-only": 9,
        "interrupted": 9,
        "short write": 9,
    },
    "encode": {"killed": 4, "error, then killed": 3, "power cut": 7, "disk full": 7},
    "describe": {"killed": 6, "error, then killed": 5, "power cut": 9, "disk full": 8},
    "register": {"killed": 9, "power cut": 11, "disk full": 11},
    "restore": {"killed": 6, "power cut": 9, "disk full": 7, "error, then power cut": 11},
    "delete": {"killed": 4, "power cut": 5, "error, then killed": 5},
    "start": {"killed": 5, "input/output error": 3},
    "migrate": {"killed": 9, "power cut": 13, "input/output error": 9},
}
"""Scenario -> fault -> every how many calls."""
PLAN = {name: dict.fromkeys(FAULTS, 1) for name in SAMPLE} if IS_WHOLE else SAMPLE


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = build_shim(tmp_path_factory.mktemp("shim"))
    if library is None:
        pytest.skip("there is no C compiler (cc) to build the faults with")
    return library


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: the faults are the shim's, so nothing need be slow."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.timeout(1800 if IS_WHOLE else 120)
@pytest.mark.parametrize("scenario", PLAN)
def test_fault_at_every_call_leaves_the_old_or_the_new_F03_F11_F12_F14(
    scenario, shim, tmp_path, quick_folder
):
    switch = FaultSwitch(quick_folder / "control", quick_folder / "store", quick_folder / "synced")
    key_file = tmp_path / "seal.key"
    key_file.write_bytes(SEAL_KEY)
    results = tmp_path / "results"
    plan = {scenario: PLAN[scenario]}
    orders = {"root": str(quick_folder), "results": str(results), "plan": plan}
    process = subprocess.run(
        [sys.executable, "-m", "tests.support.faulty_store"],
        input=json.dumps(orders),
        text=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **switch.environment(shim), "FAULT_KEY_FILE": str(key_file)},
    )
    assert process.returncode == 0, process.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert {line["fault"] for line in lines} == set(PLAN[scenario])
    assert lines[0]["num_calls"] > 15, "the shim sees what the store writes"
    for line in lines:
        assert line["problems"] == [], line
        is_hit = line["num_hits"] > 0
        if not is_hit:
            assert line["outcome"] == DONE, (line, process.stderr)
        elif FAULTS[line["fault"]].kills:
            assert line["outcome"] == KILLED, line
        else:
            assert line["outcome"] in (DONE, REFUSED), (line, process.stderr)
    never_hit = {line["fault"] for line in lines} - {
        line["fault"] for line in lines if line["num_hits"]
    }
    assert never_hit <= {"power cut after the answer"}


class FaultyStoreProcess(StoreProcess):
    """A real store process whose storage can fail."""

    def __init__(self, root: Path, shim: Path) -> None:
        super().__init__(root)
        self.switch = FaultSwitch(root / "control", self.directory)
        self._shim = shim

    def environment(self) -> dict[str, str]:
        return super().environment() | self.switch.environment(self._shim)


@pytest.fixture
async def store(tmp_path, shim):
    process = FaultyStoreProcess(tmp_path, shim)
    try:
        await process.start()
        yield process
    finally:
        process.close()


async def replace(client: StoreClient, seed: int):
    return await client.register("a", good_adapter(seed), alias="mail", replace_alias=True)


async def num_calls_of_a_replacement(client: StoreClient, store: FaultyStoreProcess) -> int:
    store.switch.arm(NO_FAULT, 0)
    await replace(client, 100)
    store.switch.disarm()
    return store.switch.num_calls


async def test_running_store_refuses_goes_on_serving_and_recovers_F11_F12(client, store):
    num_calls = await num_calls_of_a_replacement(client, store)
    outcomes = set()
    for index, name in enumerate(["disk full", "read-only", "failing disk", "input/output error"]):
        for at in range(1 + 3 * index, num_calls + 1, 12):
            before = await client.list("a")
            mail = (await client.resolve("a", "mail")).adapters[0].digest
            seed = 1000 * index + at
            store.switch.arm(FAULTS[name], at)
            try:
                new = (await replace(client, seed)).adapter.digest
                outcomes.add("done")
                assert (await client.resolve("a", "mail")).adapters[0].digest == new
            except ResourcePressureError as error:
                outcomes.add("refused")
                assert error.code == "RESOURCE_EXHAUSTED"
                assert error.metadata["resource"] == "storage"
                assert "storage" in error.message
                assert (await client.resolve("a", "mail")).adapters[0].digest == mail
                await client.fetch(client.ticket("a", mail), mail)
                assert (await client.list("a")).adapters == before.adapters
                store.switch.disarm()
                await replace(client, seed)
            finally:
                store.switch.disarm()
    assert "refused" in outcomes
    # What a failing disk held on to goes with the next upload.
    await replace(client, 0)
    assert store.staged() == []


async def test_killed_store_process_comes_back_with_the_old_or_the_new_F03(client, store):
    old = (await replace(client, 0)).adapter.digest
    num_calls = await num_calls_of_a_replacement(client, store)
    outcomes = set()
    for seed, at in enumerate(range(num_calls, 0, -9), start=1):
        before = {adapter.digest for adapter in (await client.list("a")).adapters}
        mail = (await client.resolve("a", "mail")).adapters[0].digest
        store.switch.arm(FAULTS["killed"], at)
        with pytest.raises(EdgeLoraError):
            await replace(client, seed)
        store.switch.disarm()
        assert store.process.wait() == KILLED
        await store.start()
        after = {adapter.digest for adapter in (await client.list("a")).adapters}
        now = (await client.resolve("a", "mail")).adapters[0].digest
        outcomes.add("old" if now == mail else "new")
        assert (after == before) == (now == mail)
        assert len(after - before) <= 1
        for digest in after:
            await client.fetch(client.ticket("a", digest), digest)
        assert store.staged() == []
    assert old in after
    assert outcomes == {"old", "new"}


async def test_file_size_limit_of_the_kernel_is_a_full_disk_F11(client, store):
    kept = (await client.register("a", good_adapter(1), alias="mail")).adapter.digest
    pid = store.process.pid
    limit, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, hard))
    for seed in range(2, 5):
        with pytest.raises(ResourcePressureError) as caught:
            await replace(client, seed)
        assert "no space left" in caught.value.message
        await client.fetch(client.ticket("a", kept), kept)
        assert (await client.resolve("a", "mail")).adapters[0].digest == kept
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
    assert (await replace(client, 5)).is_new
    assert store.staged() == []
    await eventually(lambda: "log_lines_lost" in store.log.read_text())
