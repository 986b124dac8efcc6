"""The verification process: bounded, powerless, and no way around it."""

import asyncio
import json
import subprocess
import sys

import pytest

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import AdapterRejectedError, DataCorruptError
from services.adapter_store.arrivals import Wish
from services.adapter_store.bases import ServedBases
from services.adapter_store.config import AdapterStoreConfig
from services.adapter_store.flash.storage import open_storage
from services.adapter_store.residency import Residency
from services.adapter_store.store import open_store
from services.adapter_store.verification import sandbox
from services.adapter_store.verification import verifier as verification
from services.adapter_store.verification.certificate import Certificate
from services.adapter_store.verification.child_process import StoredPayload
from services.adapter_store.verification.verifier import VerifiedAdapter, Verifier
from services.chassis.base_model import BaseModel
from services.chassis.sealing import Sealer
from tests.integration.adapter_store.store_process import SEAL_KEY, StoreProcess
from tests.support.adapter_files import AdapterFiles, good_adapter, tensors
from tests.support.tiny_base import tiny_base

pytestmark = pytest.mark.integration
WHY = "there is nothing to measure with"


def verifier(base: BaseModel | None = None, timeout_s: float = 30.0) -> Verifier:
    return Verifier(
        ServedBases(decoder=base or tiny_base()),
        max_rank=64,
        timeout_s=timeout_s,
        max_concurrent=2,
        minimum_sandbox="rlimits",
        why_not_measured=WHY,
    )


async def verify(tmp_path, files: AdapterFiles, **options) -> VerifiedAdapter:
    config, weights = tmp_path / "config", tmp_path / "weights"
    config.write_bytes(files.config)
    weights.write_bytes(files.weights)
    return await verifier(**options).verify(config, weights, None, tmp_path / "encoded")


async def test_finds_the_same_digest_as_a_worker_will(tmp_path):
    files = good_adapter()
    found = await verify(tmp_path, files)
    config = parse_adapter_config(files.config, max_rank=64)
    assert found.digest == adapter_digest(config, files.weights)
    stored = parse_adapter_config(found.canonical_config, max_rank=64)
    assert found.digest == adapter_digest(stored, files.weights)


async def test_process_that_hangs_is_ended_and_the_adapter_refused(tmp_path):
    with pytest.raises(AdapterRejectedError, match="more than") as caught:
        await verify(tmp_path, good_adapter(), timeout_s=0.001)
    assert caught.value.field == "weights"


async def test_process_that_crashes_means_refused(tmp_path, monkeypatch):
    start = asyncio.create_subprocess_exec

    async def start_and_kill(*arguments, **options):
        process = await start(*arguments, **options)
        process.kill()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_kill)
    with pytest.raises(AdapterRejectedError, match="fail"):
        await verify(tmp_path, good_adapter())


@pytest.mark.parametrize("module", ["json.tool", "this", "edgelora.errors"])
async def test_process_that_answers_something_else_means_refused(tmp_path, monkeypatch, module):
    monkeypatch.setattr(verification, "CHILD_MODULE", module)
    with pytest.raises(AdapterRejectedError, match="gave no answer"):
        await verify(tmp_path, good_adapter())


def spoil(path: tuple, value: object):
    """Changes one place of the findings; `...` removes it."""

    def change(answer: dict) -> None:
        place = answer
        for step in path[:-1]:
            place = place[step]
        if value is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        spoil(("findings", "weights_sha256"), "0" * 63),
        spoil(("findings", "weights_sha256"), "G" * 64),
        spoil(("findings", "canonical_config"), "x" * (1 << 20) + "x"),
        spoil(("findings", "canonical_config"), "\u00e9"),
        spoil(("findings", "rank"), "4"),
        spoil(("findings", "alpha"), 1e400),
        spoil(("findings", "target_modules"), "q_proj"),
        spoil(("findings", "tensors"), ...),
        spoil(("findings", "sandbox", "level"), "perfect"),
        spoil(("findings", "sandbox", "level"), "none"),
        spoil(("findings", "encoding"), {"codec": "x"}),
        spoil(("findings", "layer_deltas", 0, "norm"), float("nan")),
        spoil(("findings",), None),
        spoil(("refusal",), {"is_incompatible": False, "message": 5, "field": "weights"}),
        spoil(("more",), 1),
    ],
)
async def test_answer_of_a_wrong_form_is_taken_for_none(tmp_path, monkeypatch, change):
    run_child = verification.run_child

    async def run_and_change(*arguments, **options):
        text, stored = await run_child(*arguments, **options)
        answer = json.loads(text)
        change(answer)
        return json.dumps(answer).encode(), stored

    monkeypatch.setattr(verification, "run_child", run_and_change)
    with pytest.raises(AdapterRejectedError, match="gave no answer"):
        await verify(tmp_path, good_adapter())


async def test_encoded_form_nobody_spoke_of_is_refused_and_removed(tmp_path, monkeypatch):
    run_child = verification.run_child

    async def run_and_add(*arguments, **options):
        text, _ = await run_child(*arguments, **options)
        (tmp_path / "encoded").write_bytes(b"x")
        return text, StoredPayload(size_bytes=1, sha256="0" * 64)

    monkeypatch.setattr(verification, "run_child", run_and_add)
    with pytest.raises(AdapterRejectedError, match="gave no answer"):
        await verify(tmp_path, good_adapter())
    assert not (tmp_path / "encoded").exists()


async def test_certificate_of_what_was_not_measured_says_so(tmp_path):
    verified = await verify(tmp_path, good_adapter())
    certificate = verified.certificate
    assert verified.encoded is None
    assert certificate.adapter_digest == verified.digest
    assert certificate.tensors == len(tensors())
    assert [delta.layer for delta in certificate.layer_deltas] == [0, 1]
    assert (certificate.measurement, certificate.encoding) == (None, None)
    assert certificate.why_not_measured == certificate.why_exact == WHY
    assert Certificate.from_bytes(certificate.canonical_bytes()) == certificate


async def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(verification, "_BASE_MEMORY_BYTES", 1 << 20)
    with pytest.raises(AdapterRejectedError):
        await verify(tmp_path, good_adapter())


async def test_planted_environment_has_no_effect_T37_T08(tmp_path, monkeypatch):
    evil = tmp_path / "evil"
    evil.mkdir()
    canary = tmp_path / "pwn-canary"
    for name in ("sitecustomize.py", "usercustomize.py", "numpy.py", "startup.py"):
        (evil / name).write_text(f"open({str(canary)!r}, 'w')\n")
    monkeypatch.chdir(evil)
    monkeypatch.setenv("PYTHONPATH", str(evil))
    monkeypatch.setenv("PYTHONSTARTUP", str(evil / "startup.py"))
    monkeypatch.setenv("PYTHONUSERBASE", str(evil))
    await verify(tmp_path, good_adapter())
    assert not canary.exists()
    # Control: without isolation the planted module would have run.
    assert outcome_without_isolation() == 0
    assert canary.exists()


def outcome_without_isolation() -> int:
    return subprocess.run([sys.executable, "-c", "pass"]).returncode


ATTACKS = {
    "open": "open('/etc/hostname')",
    "import": "import this",
    "import by name": "__import__('antigravity')",
    "exec": "exec('1')",
    "compile": "compile('1', 'x', 'eval')",
    "run": "os.execv('/bin/true', ['true'])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "fork": "os.fork()",
    "shell": "os.system('true')",
    "socket": "socket.socket()",
    "unpickle": "pickle.loads(dumped)",
    "native": "ctypes.CDLL(None)",
    "remove": "os.remove('/nonexistent')",
    "list": "os.listdir('/')",
    "kill": "os.kill(os.getppid(), 0)",
}
PREPARE = (
    "import ctypes, os, pickle, socket, sys\n"
    "from services.adapter_store.verification import sandbox\n"
    "dumped = pickle.dumps(os.getpid)\n"
    "sys.stdout.flush()\n"
)


def outcome(code: str) -> int:
    return subprocess.run(
        [sys.executable, "-I", "-c", PREPARE + code], capture_output=True, cwd="/"
    ).returncode


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_interpreter_ends_the_process_before_it_even_tries_T01_T08_T09(attack):
    code = f"sandbox.enter(1 << 28, 10)\n{attack}\nos._exit(0)"
    assert outcome(code) == sandbox.EXIT_FORBIDDEN


def test_process_still_ends_well_when_it_does_nothing():
    assert outcome("sandbox.enter(1 << 28, 10)\nos._exit(0)") == 0


class SwappingVerifier(Verifier):
    """Replaces the staged weights by another good adapter before they are verified."""

    async def verify(self, config, weights, probe, blob_target, *, head=None, candidate=None):
        weights.write_bytes(good_adapter(99).weights)
        return await super().verify(config, weights, probe, blob_target)


async def test_bytes_verified_have_to_be_the_bytes_received_T32(tmp_path):
    files = good_adapter(1)

    async def chunks():
        yield "config", files.config
        yield "weights", files.weights

    process = StoreProcess(tmp_path)
    environment = process.environment()
    process.close()
    config = AdapterStoreConfig.from_env(
        {name: value for name, value in environment.items() if name.startswith("EDGELORA_STORE_")}
    )
    with open_storage(config.directory) as storage:
        async with open_store(
            config,
            ServedBases(decoder=tiny_base()),
            storage,
            Residency(),
            SwappingVerifier(
                ServedBases(decoder=tiny_base()), max_rank=64, timeout_s=30, max_concurrent=1
            ),
            Sealer(SEAL_KEY),
            unix_clock_s=lambda: 0.0,
            boot_clock_s=lambda: 0.0,
        ) as store:
            sizes = {"config": len(files.config), "weights": len(files.weights)}
            with pytest.raises(DataCorruptError):
                await store.arrivals.upload("a", Wish(alias=None, description=""), sizes, chunks())
        assert list(storage.blobs.directory.iterdir()) == []
        assert list(storage.staging.iterdir()) == []
        assert storage.reader.num_adapters() == 0
