"""What a verification process can still do: tried in the process, with and without each layer."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.integration.adapter_store.store_process import StoreProcess
from tests.support.older_kernel import command_without

pytestmark = pytest.mark.integration

PREPARE = """
import ctypes, json, mmap, os, signal, socket, sys
from services.adapter_store.verification import sandbox
folder, port, victim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
probe_socket = socket.socket()
stream = socket.socket(socket.AF_UNIX)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)

def fork():
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)

# Only what the kernel does is to be seen, not the interpreter's own watch.
sandbox._forbid = lambda event, arguments: None
"""
ENTER = "box = sandbox.enter(1 << 28, 20)\n"
ATTACKS = {
    "open a file that is ours alone": "open(folder + '/private').read()",
    "open a public file": "open('/etc/passwd').read()",
    "list a folder": "os.listdir(folder)",
    "write outside": "open(folder + '/new', 'w').write('x')",
    "make a folder": "os.mkdir(folder + '/made')",
    "remove a file": "os.unlink(folder + '/victim')",
    "rename a file": "os.rename(folder + '/other', folder + '/renamed')",
    "truncate a file": "os.truncate(folder + '/cut', 0)",
    "connect": "probe_socket.connect(('127.0.0.1', port))",
    "listen": "probe_socket.bind(('127.0.0.1', 0)); probe_socket.listen()",
    "connect to an abstract socket": "stream.connect('\\0edgelora-' + str(port))",
    "new socket": "socket.socket()",
    "fork": "fork()",
    "allocate 10 GB": "mmap.mmap(-1, 10 << 30)",
    "executable memory": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "trace another process": "call('ptrace', 16, victim, None, None)",
    "read another's memory": "call('process_vm_readv', victim, None, 0, None, 0, 0)",
    "write to standard error": "os.write(2, b'x')",
    "raise a limit": (
        "import resource; "
        "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2); "
        "mmap.mmap(-1, 10 << 30)"
    ),
    "become root again": "os.setuid(0); open(folder + '/private').read()",
    # Last, for it would end the process.
    "execute": "os.execv('/bin/true', ['true'])",
}
BY_LIMITS = {
    "open a file that is ours alone", "open a public file", "list a folder", "write outside",
    "new socket", "fork", "allocate 10 GB", "raise a limit", "become root again",
}  # fmt: skip
BY_LANDLOCK = {
    "execute": 1,
    "make a folder": 1,
    "remove a file": 1,
    "rename a file": 1,
    "truncate a file": 3,
}
BY_LANDLOCK |= {"connect": 4, "listen": 4}
BY_LANDLOCK |= {"connect to an abstract socket": 6, "signal the parent": 6}
"""And the ABI from which on."""


def landlock_abi() -> int:
    code = "from services.adapter_store.verification.landlock import supported_abi as f; print(f())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)


LANDLOCK_ABI = landlock_abi()
needs_landlock = pytest.mark.skipif(LANDLOCK_ABI == 0, reason="this kernel has no Landlock")


@pytest.fixture
def target(tmp_path):
    """A folder everybody may use, a listener, and a process: what attacks are aimed at."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("private", "victim", "other", "cut"):
        (folder / name).write_text("content")
    (folder / "private").chmod(0o600)
    (folder / "cut").chmod(0o666)
    folder.chmod(0o777)
    # pytest's folders are closed to others, and the process may become nobody.
    closed = [parent for parent in folder.parents if parent.stat().st_mode & 1 == 0]
    for parent in closed:
        parent.chmod(parent.stat().st_mode | 1)
    victim = subprocess.Popen(["sleep", "600"])
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        port = server.getsockname()[1]
        local.bind(f"\0edgelora-{port}")
        local.listen()
        yield [str(folder), str(port), str(victim.pid)]
    victim.kill()
    victim.wait()
    for parent in closed:
        parent.chmod(parent.stat().st_mode & ~1)


def start(target, code: str, missing: tuple[str, ...] = ()):
    """Runs code after PREPARE, on a kernel without some features."""
    command = [sys.executable, "-I", "-c", PREPARE + code, *target]
    return subprocess.run(
        command_without(list(missing), command),
        capture_output=True,
        cwd="/",
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )


def run(target, code: str, missing: tuple[str, ...] = ()) -> str:
    """As `start`, and it has to end well; returns what it wrote."""
    result = start(target, code, missing)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.decode()


TRY_ALL = """
def outcome(attack):
    try:
        exec(attack)
    except BaseException as error:
        return type(error).__name__
    return "done"

outcomes = {name: outcome(attack) for name, attack in attacks.items() if name not in left_out}
os.write(1, json.dumps([outcomes, box.level, box.landlock_abi, box.has_seccomp]).encode())
os._exit(0)
"""


def outcomes_inside(target, *missing: str, left_out: tuple[str, ...] = ()):
    """What became of every attack, and the sandbox as (level, landlock_abi, has_seccomp)."""
    code = f"import resource\nattacks = {ATTACKS!r}\nleft_out = {left_out}\n{ENTER}{TRY_ALL}"
    outcomes, *box = json.loads(run(target, code, missing))
    return outcomes, tuple(box)


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_works_without_the_sandbox(target, attack):
    if attack in ("trace another process", "become root again") and os.geteuid() != 0:
        pytest.skip("shows what the sandbox stops: only root can do this without one")
    run(target, f"import resource\n{ATTACKS[attack]}\nos._exit(0)\n")


@needs_landlock
def test_every_attack_fails_inside_T01_T08(target):
    outcomes, box = outcomes_inside(target)
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == set()
    assert box == ("landlock+seccomp", LANDLOCK_ABI, True)


def test_every_attack_fails_without_landlock_too_and_that_is_reported(target):
    outcomes, box = outcomes_inside(target, "landlock")
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == set()
    assert box == ("rlimits", 0, True)


@needs_landlock
def test_landlock_alone_protects_files_network_and_processes(target):
    outcomes, box = outcomes_inside(target, "seccomp")
    refused = BY_LIMITS | {name for name, abi in BY_LANDLOCK.items() if abi <= LANDLOCK_ABI}
    assert {name for name in refused if outcomes[name] == "done"} == set()
    assert box == ("landlock", LANDLOCK_ABI, False)


def test_limits_alone_bound_files_memory_and_processes(target):
    # A program would be started, and end because its loader can open nothing.
    outcomes, box = outcomes_inside(target, "landlock", "seccomp", left_out=("execute",))
    assert {name for name in BY_LIMITS if outcomes[name] == "done"} == set()
    assert box == ("rlimits", 0, False)


def test_processor_without_a_filter_is_reported_lower(target):
    code = (
        "from services.adapter_store.verification import system_calls\n"
        "system_calls.ARCHITECTURES.clear()\n"
        f"{ENTER}os.write(1, (box.level + str(box.has_seccomp)).encode())\nos._exit(0)\n"
    )
    assert run(target, code) == ("landlock" if LANDLOCK_ABI else "rlimits") + "False"


def test_threads_landlock_would_not_bind_are_reported(target):
    code = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        f"{ENTER}os.write(1, box.level.encode())\nos._exit(0)\n"
    )
    assert run(target, code) == "rlimits"


def test_limits_are_set_for_good(target):
    code = (
        "import resource as r\n"
        f"{ENTER}names = r.RLIMIT_CORE, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_NPROC\n"
        "limits = [r.getrlimit(n) for n in names] + [r.getrlimit(r.RLIMIT_CPU)]\n"
        "os.write(1, json.dumps([limits, r.getrlimit(r.RLIMIT_AS)[1]]).encode())\nos._exit(0)\n"
    )
    limits, memory = json.loads(run(target, code, ("seccomp",)))
    assert limits == [[0, 0]] * 4 + [[20, 20]]
    assert 1 << 28 < memory < 1 << 30


def test_processor_time_ends(target):
    code = f"{ENTER.replace('20', '1')}while True: pass\n"
    assert start(target, code).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("minimum", "missing", "reached"),
    [
        ("landlock+seccomp", "landlock", "rlimits"),
        ("landlock", "landlock", "rlimits"),
        pytest.param("landlock+seccomp", "seccomp", "landlock", marks=needs_landlock),
    ],
)
def test_store_does_not_start_below_the_minimum(tmp_path, minimum, missing, reached):
    store = StoreProcess(tmp_path, SANDBOX_LEVEL=minimum)
    command = [sys.executable, "-m", "services.adapter_store"]
    try:
        result = subprocess.run(
            command_without([missing], command),
            env=store.environment(),
            capture_output=True,
            text=True,
        )
    finally:
        store.close()
    assert result.returncode == 2
    assert f"SANDBOX_LEVEL is {minimum}, this machine reaches {reached}" in result.stderr


async def test_store_says_what_it_reached(store):
    (line,) = (line for line in store.log.read_text().splitlines() if "verification_ready" in line)
    told = json.loads(line)
    assert told["sandbox"] == ("landlock+seccomp" if LANDLOCK_ABI else "rlimits")
    assert told["landlock_abi"] == LANDLOCK_ABI
    assert told["measuring"] is False
    assert "packed" in told["not_measured_because"]
