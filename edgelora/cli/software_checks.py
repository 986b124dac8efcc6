"""What `doctor` finds of the software: Python, back ends, Redis, models, disk, ports."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

from edgelora.cli.device_checks import Finding, Level
from edgelora.cli.served_model import wanted_backend
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.layout import StackLayout
from edgelora.local_stack.ports import (
    DEFAULT_DASHBOARD_PORT,
    DEFAULT_HTTP_PORT,
    DEFAULT_PORT,
    is_free,
)
from edgelora.local_stack.redis_binary import find_redis_binary
from edgelora.local_stack.state_file import load_state
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import list_models
from services.chassis.base_model import FORMS
from services.chassis.extras import install_command
from services.inference.backends.choice import choose_backend
from services.inference.backends.native_backend import NativeBackend
from services.inference.config import KV_CACHE_DTYPES, PREFIX

MIN_PYTHON = (3, 11)
_GB = 10**9
_MIN_DISK_BYTES = 1 * _GB
_TORCH_LIMIT_S = 120.0
_TORCH_REMEDY = f"run `{install_command('train')}` in the source tree"
_PORTS = {"gRPC": DEFAULT_PORT, "HTTP": DEFAULT_HTTP_PORT, "dashboard": DEFAULT_DASHBOARD_PORT}
_FORM_OF = {"native": "native", "torch": "float32"}


def software_findings(layout: StackLayout, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Looks at what the stack of a home needs. `environ`: with the settings of the worker."""
    yield _python()
    yield from back_ends(NativeBackend.probe(), _torch())
    yield _redis()
    yield _models(layout, environ)
    yield _disk(layout)
    yield ports(layout)


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(map(str, MIN_PYTHON))
        return Finding("Python", Level.PROBLEM, f"{version}: {wanted} or newer is needed")
    return Finding("Python", Level.OK, version)


def back_ends(native_obstacle: str | None, torch: Finding) -> Iterator[Finding]:
    """Judges both together: one of them has to run."""
    if native_obstacle is None:
        yield Finding("native core", Level.OK, "it runs here")
    elif torch.level is Level.OK:
        text = f"{native_obstacle}; until then torch serves, several times slower"
        yield Finding("native core", Level.WARNING, text)
    else:
        yield Finding("native core", Level.PROBLEM, native_obstacle)
    yield torch


def _torch() -> Finding:
    if find_spec("torch") is None:
        return Finding("torch", Level.UNKNOWN, f"not installed, training needs it: {_TORCH_REMEDY}")
    # In a process of its own: on a processor it was not built for, it dies on import.
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", "import torch; print(torch.__version__)"],
            capture_output=True,
            text=True,
            timeout=_TORCH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("torch", Level.WARNING, f"no answer after {_TORCH_LIMIT_S:.0f} s")
    if done.returncode < 0:
        return Finding(
            "torch",
            Level.WARNING,
            f"dies on import (signal {-done.returncode}): {_TORCH_REMEDY}",
        )
    if done.returncode != 0:
        return Finding("torch", Level.WARNING, f"cannot be imported: {_TORCH_REMEDY}")
    return Finding("torch", Level.OK, done.stdout.strip())


def _redis() -> Finding:
    try:
        binary = find_redis_binary()
    except StackError as error:
        return Finding("Redis", Level.PROBLEM, str(error))
    return Finding("Redis", Level.OK, f"{binary.version_text} ({binary.path})")


def _models(layout: StackLayout, environ: Mapping[str, str]) -> Finding:
    """Judges by the worst model, and reads the weights that would serve."""
    wanted, found, level = wanted_backend(environ), [], Level.OK
    try:
        for model in list_models(layout.home):
            directory = layout.home / "models" / model.name
            choice = choose_backend(wanted, directory)
            model.verify_file(directory, FORMS[_FORM_OF[choice.name]])
            if choice.name == "torch":
                level = Level.WARNING
                found.append(f"{model.name} (torch, several times slower: {choice.reason})")
            else:
                kind = environ.get(f"{PREFIX}KV_CACHE_DTYPE", "").strip() or KV_CACHE_DTYPES[0]
                found.append(f"{model.name} ({choice.name}, KV cache in {kind})")
    except (ToolchainError, ValueError) as error:
        return Finding("model", Level.PROBLEM, str(error))
    if not found:
        return Finding("model", Level.WARNING, "none is prepared: `edgelora up` prepares one")
    return Finding("model", level, ", ".join(found))


def _disk(layout: StackLayout) -> Finding:
    directory = next(path for path in (layout.home, *layout.home.parents) if path.exists())
    free = shutil.disk_usage(directory).free
    text = f"{free / _GB:.1f} GB free in {directory}"
    if free < _MIN_DISK_BYTES:
        return Finding("disk", Level.PROBLEM, f"{text}: {_MIN_DISK_BYTES / _GB:.0f} GB are needed")
    return Finding("disk", Level.OK, text)


def ports(layout: StackLayout, is_free: Callable[[int], bool] = is_free) -> Finding:
    """Whether the usual ports are free; where a stack runs, what it serves on."""
    state = load_state(layout.state_file)
    if state is not None and state.is_alive():
        places = f"{state.gateway_address}, {state.http_address} and {state.dashboard_address}"
        return Finding("ports", Level.OK, f"a stack serves on {places}")
    taken = [f"{port} ({what})" for what, port in _PORTS.items() if not is_free(port)]
    if taken:
        text = f"{', '.join(taken)} in use: others will be taken"
        return Finding("ports", Level.WARNING, text)
    return Finding("ports", Level.OK, f"{', '.join(map(str, _PORTS.values()))} are free")
