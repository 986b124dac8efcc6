"""Runs a store in this process, over storage that fails, and looks at what is left.

`python -m tests.support.faulty_store` under the shim's environment: reads its orders as JSON from
standard input, forks once for every fault, and writes a line of JSON for each.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgelora.adapter_format import read_adapter
from edgelora.adapter_package import EncodedForm, write_package
from edgelora.errors import EdgeLoraError, ResourcePressureError
from services.adapter_store.bases import ServedBases
from services.adapter_store.config import AdapterStoreConfig
from services.adapter_store.flash.storage import REGISTRY_FILE, Storage, open_storage
from services.adapter_store.names import Selection
from services.adapter_store.registry.manifest import AdapterContent, Task
from services.adapter_store.registry.schema import MIGRATIONS
from services.adapter_store.registry.writer import AliasWish
from services.adapter_store.residency import Residency
from services.adapter_store.store import Store, open_store
from services.adapter_store.verification import certificate as certificates
from services.adapter_store.verification.certificate import Certificate, Encoding
from services.adapter_store.verification.child_process import Payload, store_payload
from services.adapter_store.verification.orders import KnownForm
from services.adapter_store.verification.verifier import EncodedBlob, VerifiedAdapter, Verifier
from services.adapter_store.wish import Wish
from services.chassis.sealing import Sealer
from tests.support.adapter_files import (
    TINY_LAYERS,
    TINY_TARGETS,
    AdapterFiles,
    card_bytes,
    good_adapter,
    ranked_adapter,
)
from tests.support.storage_faults import (
    FAULTS,
    NO_FAULT,
    Fault,
    FaultSwitch,
    restore_synced,
    sync_all,
)
from tests.support.tiny_base import tiny_base

TENANT, ALIAS = "tenant", "mail"
OLD, NEW = good_adapter(1), good_adapter(2)
VERSION = ranked_adapter(2, card=card_bytes("a prompt", description="a version"))
ENCODED = b"encoded" * 1000
DONE, REFUSED, BROKEN = 0, 10, 11
BASE = tiny_base()


class QuickVerifier(Verifier):
    """Reads the files without a process of its own: what fails here is storage alone."""

    def __init__(self, *, is_encoding: bool) -> None:
        super().__init__(ServedBases(decoder=BASE), max_rank=64, timeout_s=1, max_concurrent=1)
        self._is_encoding = is_encoding

    async def verify(
        self,
        config: Path,
        weights: Path,
        probe: Path | None,
        blob_target: Path,
        *,
        head: Path | None = None,
        candidate: Path | None = None,
    ) -> VerifiedAdapter:
        """As the child would answer, and with its way to store an encoded form."""
        found = _verified(config.read_bytes(), weights.read_bytes())  # noqa: ASYNC240
        if not self._is_encoding:
            return found
        output = asyncio.StreamReader()
        output.feed_data(ENCODED)
        output.feed_eof()
        stored = await store_payload(output, Payload(path=blob_target, max_bytes=10_000))
        assert stored is not None
        encoded = EncodedBlob(name=stored.sha256, path=blob_target, size_bytes=stored.size_bytes)
        certificate = replace(
            CERTIFICATE,
            encoding=Encoding(
                codec="test",
                version=1,
                bits=3.2,
                bits_per_parameter=3.2,
                num_bytes=stored.size_bytes,
                sha256=stored.sha256,
                relative_error=0.0,
            ),
        )
        return replace(found, certificate=certificate, encoded=encoded)

    async def verify_again(
        self,
        config: Path,
        weights: Path,
        probe: Path | None,
        blob_target: Path,
        known: KnownForm,
    ) -> VerifiedAdapter | EncodedBlob:
        """As if encoding always made the known form."""
        found = await self.verify(config, weights, probe, blob_target)
        assert found.encoded is not None
        assert found.encoded.name == known.sha256
        return found.encoded


CERTIFICATE = Certificate(
    version=certificates.VERSION,
    edgelora="test",
    adapter_digest="",
    base_digest=BASE.digest,
    sandbox="none",
    tensors=8,
    parameters=1,
    layer_deltas=(),
    encoding=None,
    why_exact="a test",
    measurement=None,
    why_not_measured="a test",
)


def _verified(config: bytes, weights: bytes) -> VerifiedAdapter:
    parsed, pairs = read_adapter(
        config, weights, targets=TINY_TARGETS, num_layers=TINY_LAYERS, max_rank=64
    )
    return VerifiedAdapter(
        task=Task.GENERATE,
        canonical_config=parsed.canonical_bytes(),
        canonical_head=None,
        head=None,
        weights_sha256=hashlib.sha256(weights).digest(),
        rank=pairs.max_rank,
        alpha=parsed.alpha,
        target_modules=("q_proj", "v_proj"),
        num_parameters=1,
        certificate=CERTIFICATE,
        encoded=None,
    )


@asynccontextmanager
async def opened(
    directory: Path, *, is_encoding: bool = False
) -> AsyncIterator[tuple[Storage, Store]]:
    """A store over a directory."""
    remotes = remotes_file()
    config = AdapterStoreConfig.from_env(
        {
            "EDGELORA_STORE_ADDRESS": "unix:/nowhere",
            "EDGELORA_STORE_DIRECTORY": str(directory),
            "EDGELORA_STORE_MODEL_DIRECTORY": "/nowhere",
            "EDGELORA_STORE_SEAL_KEY_FILE": os.environ["FAULT_KEY_FILE"],
            "EDGELORA_STORE_MIN_FREE_BYTES": "0",
            "EDGELORA_STORE_CODEC": "off",
            "EDGELORA_STORE_WARM_UP": "false",
            **({"EDGELORA_STORE_REMOTES_FILE": str(remotes)} if remotes.exists() else {}),
        }
    )
    with open_storage(directory) as storage:
        async with open_store(
            config,
            ServedBases(decoder=BASE),
            storage,
            Residency(),
            QuickVerifier(is_encoding=is_encoding),
            Sealer(config.seal_key),
            unix_clock_s=lambda: 0.0,
            boot_clock_s=lambda: 0.0,
        ) as store:
            yield storage, store


async def register(
    store: Store,
    files: AdapterFiles,
    alias: str,
    *,
    may_replace: bool,
    version_of: str | None = None,
) -> str:
    """Uploads an adapter; returns its digest."""
    sent = {"config": files.config, "weights": files.weights, "card": files.card}

    async def chunks() -> AsyncIterator[tuple[Any, bytes]]:
        for kind, data in sent.items():
            if data:
                yield kind, data

    wish = Wish(
        alias=AliasWish(name=alias, may_replace=may_replace, expected_generation=None),
        description="",
        version_of_digest=version_of,
    )
    sizes: Any = {kind: len(data) for kind, data in sent.items()}
    registration = await store.arrivals.upload(TENANT, wish, sizes, chunks())
    return registration.manifest.digest


async def _register(store: Store) -> None:
    await register(store, NEW, "other", may_replace=False)


async def _replace(store: Store) -> None:
    await register(store, NEW, ALIAS, may_replace=True)


async def _describe(store: Store) -> None:
    await register(store, VERSION, ALIAS, may_replace=True, version_of=old_digest())


async def _delete(store: Store) -> None:
    await store.library.delete(TENANT, old_digest())


async def _restore(store: Store) -> None:
    (found, *_), _ = store.library.resolve(TENANT, [Selection(ALIAS, 1.0)])
    await store.arrivals.bring_to_flash(found.manifest)


SCENARIOS: dict[str, Callable[[Store], Awaitable[None]] | None] = {
    "register": _register,
    "replace": _replace,
    "encode": _replace,
    "describe": _describe,
    "delete": _delete,
    "restore": _restore,
    "start": None,
    "migrate": None,
}
"""What happens while calls are counted; None: the start of the store itself. `encode` replaces with
an adapter whose serving form is an encoded one, `describe` with a lower-rank version that has a
card, `restore` brings one back from its package."""


_DIGESTS: list[str] = []


def old_digest() -> str:
    """The digest of the adapter that is there from the beginning."""
    return _DIGESTS[0]


async def prepare(template: Path) -> AdapterContent:
    """Makes a store with one adapter; returns the adapter's content."""
    async with opened(template) as (storage, store):
        _DIGESTS.append(await register(store, OLD, ALIAS, may_replace=False))
        content = storage.reader.content(old_digest())
        assert content is not None
        return content


def remotes_file() -> Path:
    """The remotes of the store: a directory with packages."""
    return Path(os.environ["FAULT_KEY_FILE"]).with_name("remotes.toml")


def make_remote() -> None:
    """Puts a package of the old adapter into the remote, with its encoded form."""
    place = remotes_file().parent
    peft = place / "peft"
    peft.mkdir()
    (peft / "adapter_config.json").write_bytes(OLD.config)
    (peft / "adapter_model.safetensors").write_bytes(OLD.weights)
    form = EncodedForm(base_digest=BASE.digest, codec_version=1, data=ENCODED)
    write_package(peft, place / "site" / "old", "latest", [form])
    remotes_file().write_text(f'[site]\nkind = "directory"\npath = "{place / "site"}"\n')


async def prepare_evicted(template: Path) -> None:
    """Makes a store whose one adapter has left flash."""
    wish = Wish(
        alias=AliasWish(name=ALIAS, may_replace=False, expected_generation=None), description=""
    )
    async with opened(template, is_encoding=True) as (storage, store):
        await store.arrivals.install(TENANT, wish, "site/old", lambda _received, _total: None)
        for name in storage.writer.evict(old_digest()):
            storage.blobs.remove(name)


def take_back(directory: Path, content: AdapterContent) -> None:
    """Makes the registry of a prepared store what the first release would have left."""
    assert content.config is not None
    assert content.weights is not None
    for file in directory.glob(f"{REGISTRY_FILE}*"):
        file.unlink()
    with closing(sqlite3.connect(directory / REGISTRY_FILE)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(MIGRATIONS[0])
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO adapters VALUES (?,?,?,4,8.0,'[\"q_proj\", \"v_proj\"]',1,?,?,?,?,0.0,'')",
            (
                TENANT,
                content.digest,
                BASE.digest,
                content.config.name,
                content.weights.name,
                content.config.size_bytes,
                content.weights.size_bytes,
            ),
        )
        connection.execute(
            "INSERT INTO aliases VALUES (?, ?, ?, 1)", (TENANT, ALIAS, content.digest)
        )
        connection.commit()


State = dict[str, list[tuple[str, Any]]]
"""What a tenant sees: digest -> aliases with their generations, whether it is on flash, what its
card says and which adapter it is a version of."""


def state(storage: Storage) -> State:
    """The state of a store."""
    return {
        manifest.digest: [
            ("on flash", manifest.content.is_on_flash),
            ("description", manifest.description),
            ("prompts", storage.reader.example_prompts(TENANT, manifest.digest)),
            ("version of", manifest.version_of_digest),
            *(
                (alias.name, alias.generation)
                for alias in storage.reader.aliases_of(TENANT, manifest.digest)
            ),
        ]
        for manifest in storage.reader.adapters(TENANT, 100)
    }


async def act(directory: Path, scenario: str, fault: Fault, at: int, switch: FaultSwitch) -> int:
    """Runs a scenario with a fault; returns what became of it, when it returns at all."""
    perform = SCENARIOS[scenario]
    if perform is None:
        switch.arm(fault, at)
        try:
            async with opened(directory):
                switch.disarm()
        except (OSError, sqlite3.Error):
            return REFUSED
        return DONE
    is_encoding = scenario in ("encode", "restore")
    async with opened(directory, is_encoding=is_encoding) as (storage, store):
        before = state(storage)
        switch.arm(fault, at)
        try:
            await perform(store)
            outcome = DONE
        except ResourcePressureError as error:
            assert error.metadata["resource"] == "storage"
            outcome = REFUSED
        switch.disarm()
        if fault.is_the_end:
            os._exit(outcome)
        if outcome == REFUSED:
            check_unharmed(storage, store, before)
            # Once storage works again, so does the store.
            await perform(store)
        return outcome


def check_unharmed(storage: Storage, store: Store, before: State) -> None:
    """A refusal changed nothing, and what was there goes on being served."""
    assert state(storage) == before, "a refused change was made"
    resolved, _ = store.library.resolve(TENANT, [Selection(ALIAS, 1.0)])
    assert resolved[0].manifest.digest == old_digest()
    assert problems(storage, is_swept=False) == []


def problems(storage: Storage, *, is_swept: bool = True) -> list[str]:
    """What is wrong with the files of a store: nothing, one hopes."""
    found = []
    storage.writer.check()
    for digest in state(storage):
        content = storage.reader.content(digest)
        if content is None:
            found.append("an adapter without its content")
            continue
        if not content.is_on_flash:
            continue
        for blob in content.blobs:
            try:
                storage.blobs.check(blob.name, blob.size_bytes)
            except EdgeLoraError as error:
                found.append(error.message)
    on_flash = {path.name for path in storage.blobs.directory.iterdir()}
    if is_swept and on_flash != storage.reader.blobs():
        found.append("a blob nobody refers to")
    return found


async def look(directory: Path, told: int, states: Sequence[State]) -> list[str]:
    """Starts the store again and says what is wrong; `states`: before and after the scenario."""
    async with opened(directory) as (storage, _):
        found = problems(storage)
        if state(storage) not in (states[1:] if told == DONE else states):
            found.append("neither the old state nor the new, or not the one that was told")
        found += [f"left behind: {path.name}" for path in list_files(storage.staging)]
    return found + [f"set aside: {path.name}" for path in list_files(directory, "damaged-*")]


def list_files(directory: Path, pattern: str = "*") -> list[Path]:
    """What matches in a directory."""
    return list(directory.glob(pattern))


class Bench:
    """Runs faults one after the other, each over a fresh copy of the store."""

    def __init__(self, root: Path, switch: FaultSwitch) -> None:
        self._switch = switch
        self._template, self._version_1 = root / "template", root / "version-1"
        self._evicted = root / "evicted"
        self._directory, self._synced, self._after = root / "store", root / "synced", root / "after"
        self._states: dict[str, tuple[State, State]] = {}
        make_remote()
        content = asyncio.run(prepare(self._template))
        asyncio.run(prepare_evicted(self._evicted))
        shutil.copytree(self._template, self._version_1)
        take_back(self._version_1, content)

    def learn(self, scenario: str) -> int:
        """Runs a scenario without a fault; returns how many calls it makes."""
        before = asyncio.run(_state_of(self._source(scenario)))
        self._copy(scenario, NO_FAULT)
        assert self._act(scenario, NO_FAULT, 0) == DONE
        num_calls = self._switch.num_calls
        self._states[scenario] = before, asyncio.run(_state_of(self._directory))
        return num_calls

    def run(self, scenario: str, fault: Fault, at: int) -> tuple[int, list[str]]:
        """Returns how a scenario ended, and what is wrong afterwards."""
        self._copy(scenario, fault)
        outcome = self._act(scenario, fault, at)
        directory = self._directory
        if fault.is_power_cut:
            directory = self._after
            shutil.rmtree(directory, ignore_errors=True)
            restore_synced(self._directory, self._synced, directory)
        is_retried = outcome == REFUSED and SCENARIOS[scenario] and not fault.is_the_end
        told = DONE if is_retried else outcome
        return outcome, asyncio.run(look(directory, told, self._states[scenario]))

    def _copy(self, scenario: str, fault: Fault) -> None:
        for folder in (self._directory, self._synced):
            shutil.rmtree(folder, ignore_errors=True)
        for kind in ("contents", "listings"):
            (self._synced / kind).mkdir(parents=True)
        shutil.copytree(self._source(scenario), self._directory)
        self._switch.keep_synced(fault.is_power_cut)
        if fault.is_power_cut:
            sync_all(self._directory)

    def _source(self, scenario: str) -> Path:
        return {"migrate": self._version_1, "restore": self._evicted}.get(scenario, self._template)

    def _act(self, scenario: str, fault: Fault, at: int) -> int:
        process = os.fork()
        if process == 0:
            code = BROKEN
            try:
                code = asyncio.run(act(self._directory, scenario, fault, at, self._switch))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        self._switch.disarm()
        self._switch.keep_synced(False)
        return os.waitstatus_to_exitcode(status)


async def _state_of(directory: Path) -> State:
    async with opened(directory) as (storage, _):
        return state(storage)


def main() -> None:
    """Follows the orders: `root`, `results`, `plan` (scenario -> fault -> every how many calls)."""
    orders = json.loads(sys.stdin.read())
    root = Path(orders["root"])
    switch = FaultSwitch(Path(os.environ["FAULT_CONTROL"]), root / "store", root / "synced")
    bench = Bench(root, switch)
    with Path(orders["results"]).open("w") as results:
        for scenario, faults in orders["plan"].items():
            num_calls = bench.learn(scenario)
            for name, step in faults.items():
                # One call more than there are: the fault never comes.
                for at in [*range(1, num_calls + 1, step), num_calls + 1]:
                    outcome, found = bench.run(scenario, FAULTS[name], at)
                    line = {
                        "scenario": scenario,
                        "fault": name,
                        "at": at,
                        "num_calls": num_calls,
                        "outcome": outcome,
                        "num_hits": switch.num_hits,
                        "problems": found,
                    }
                    results.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
