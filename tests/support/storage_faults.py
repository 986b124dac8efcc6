"""Storage that fails at a chosen call: the preloaded shim, and what a power cut leaves."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("fault_shim.c")


@dataclass(frozen=True)
class Fault:
    """What happens at the chosen call."""

    action: int
    error: int = 0
    is_lasting: bool = False
    is_power_cut: bool = False
    """What was not synced when the process ended is gone."""
    is_the_end: bool = False
    """The process is killed once the scenario has answered, before it writes anything more."""

    @property
    def kills(self) -> bool:
        """Whether the call that is hit is the last thing the process does."""
        return self.action in (_KILL, _TORN)


_COUNT, _KILL, _TORN, _FAIL, _SHORT = range(5)
NO_FAULT = Fault(_COUNT)
FAULTS: dict[str, Fault] = {
    "killed": Fault(_KILL),
    "killed amid a write": Fault(_TORN),
    "power cut": Fault(_KILL, is_power_cut=True),
    "power cut after the answer": Fault(_COUNT, is_power_cut=True, is_the_end=True),
    "input/output error": Fault(_FAIL, errno.EIO),
    "error, then killed": Fault(_FAIL, errno.EIO, is_the_end=True),
    "error, then power cut": Fault(_FAIL, errno.EIO, is_power_cut=True, is_the_end=True),
    "failing disk": Fault(_FAIL, errno.EIO, is_lasting=True),
    "disk full": Fault(_FAIL, errno.ENOSPC, is_lasting=True),
    "full for a moment": Fault(_FAIL, errno.ENOSPC),
    "read-only": Fault(_FAIL, errno.EROFS, is_lasting=True),
    "interrupted": Fault(_FAIL, errno.EINTR),
    "short write": Fault(_SHORT),
}


class _Control(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            "is_armed",
            "action",
            "at",
            "error",
            "is_lasting",
            "keeps_synced",
            "num_calls",
            "num_hits",
        )
    ]


def build_shim(folder: Path) -> Path | None:
    """Compiles the shim; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "fault_shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    return library


class FaultSwitch:
    """Arms the shim of another process, or of this one and what it forks."""

    def __init__(self, control: Path, directory: Path, synced: Path | None = None) -> None:
        """`directory`: what fails. `synced`: where copies of what was synced go."""
        self._control_path, self._directory, self._synced = control, directory, synced
        if not control.exists():
            control.write_bytes(bytes(ctypes.sizeof(_Control)))
        with control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._control = _Control.from_buffer(self._memory)

    def environment(self, shim: Path) -> dict[str, str]:
        """What the failing process has to be started with."""
        own = {
            "LD_PRELOAD": str(shim),
            "FAULT_CONTROL": str(self._control_path),
            "FAULT_DIRECTORY": str(self._directory),
        }
        return own if self._synced is None else own | {"FAULT_SYNCED": str(self._synced)}

    def arm(self, fault: Fault, at: int) -> None:
        """From now on calls count; the one of number `at`, from 1, is hit."""
        control = self._control
        control.action, control.at, control.error = fault.action, at, fault.error
        control.is_lasting = fault.is_lasting
        control.num_calls = control.num_hits = 0
        control.is_armed = 1

    def disarm(self) -> None:
        """From now on nothing is counted and nothing fails."""
        self._control.is_armed = 0

    def keep_synced(self, is_wanted: bool) -> None:
        """Whether copies are made of what is synced."""
        self._control.keeps_synced = is_wanted

    @property
    def num_calls(self) -> int:
        """Calls counted since the last `arm`."""
        return int(self._control.num_calls)

    @property
    def num_hits(self) -> int:
        """Calls hit since the last `arm`."""
        return int(self._control.num_hits)


def restore_synced(root: Path, synced: Path, out: Path) -> None:
    """Builds what a power cut would leave of `root`: names and bytes as they were synced last.

    A name that was synced without its content is an empty file.
    """
    _restore(root.stat().st_ino, synced, out)


def _restore(inode: int, synced: Path, out: Path) -> None:
    out.mkdir(mode=0o700)
    listing = synced / "listings" / str(inode)
    if not listing.exists():
        return
    for line in listing.read_text().splitlines():
        entry, is_directory, name = line.split(" ", 2)
        if is_directory == "1":
            _restore(int(entry), synced, out / name)
            continue
        content = synced / "contents" / entry
        (out / name).write_bytes(content.read_bytes() if content.exists() else b"")
        (out / name).chmod(0o600)


def sync_all(root: Path) -> None:
    """Syncs a directory and everything below it."""
    for folder, _, files in os.walk(root):
        for path in (*(Path(folder, name) for name in files), Path(folder)):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
