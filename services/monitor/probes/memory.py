"""Memory of the device, or of the container where its limit is tighter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.monitor.probes.sensor_files import SensorFiles

_V2 = "sys/fs/cgroup"
_V1 = "sys/fs/cgroup/memory"
_NO_LIMIT_BYTES = 2**60
_MAX_DIGITS = len(str(_NO_LIMIT_BYTES))
"""Of a number of bytes: one with more is not plausible, and may be too long to be read."""
_KIB = rf"\d{{1,{_MAX_DIGITS - 3}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A total and what of it can still be used, in bytes; None is unknown."""

    total_bytes: int | None = None
    available_bytes: int | None = None


class MemoryProbe:
    """Reads /proc/meminfo and the limits of this process's cgroups (v1 and v2)."""

    def __init__(self, files: SensorFiles) -> None:
        self._files = files

    def read(self) -> Memory:
        """Returns whichever of device and cgroups has the smallest share left.

        Where a cgroup has a limit and does not say how much it uses, nothing is known.
        """
        device = self._device()
        if device.total_bytes is None or device.available_bytes is None:
            return device
        known = [(device.total_bytes, device.available_bytes)]
        for limit, available in self._cgroups(device.total_bytes):
            if available is None:
                return Memory()
            known.append((limit, available))
        total, available = min(known, key=lambda memory: memory[1] / memory[0])
        return Memory(total_bytes=total, available_bytes=available)

    def _device(self) -> Memory:
        text = self._files.text("proc/meminfo") or ""
        fields = dict(re.findall(rf"^(\w+):\s+({_KIB}) kB$", text, re.MULTILINE))
        total_kib = int(fields.get("MemTotal", 0))
        available_kib = int(fields["MemAvailable"]) if "MemAvailable" in fields else None
        if available_kib is not None and available_kib > total_kib:
            self._files.warn("proc/meminfo", "more is available than there is")
            available_kib = None
        return Memory(
            total_bytes=total_kib * 1024 or None,
            available_bytes=None if available_kib is None else available_kib * 1024,
        )

    def _cgroups(self, device_bytes: int) -> Iterator[tuple[int, int | None]]:
        """Limit and what is left of it, None for unknown, of each that is tighter."""
        for directory, limit_file, usage_file, cache_name in self._cgroup_files():
            limit = self._bytes(f"{directory}/{limit_file}")
            if limit is None or not 0 < limit < device_bytes:
                continue
            usage = self._bytes(f"{directory}/{usage_file}")
            if usage is None:
                yield limit, None
                continue
            stat = self._files.text(f"{directory}/memory.stat") or ""
            # File pages that nobody used lately are given back before anything is refused.
            cached = re.search(rf"^{cache_name} (\d{{1,{_MAX_DIGITS}}})$", stat, re.MULTILINE)
            in_use = usage - (int(cached[1]) if cached else 0)
            yield limit, min(limit, max(0, limit - in_use))

    def _cgroup_files(self) -> Iterator[tuple[str, str, str, str]]:
        for line in (self._files.text("proc/self/cgroup") or "").splitlines():
            hierarchy, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if hierarchy == "0" and not controllers:
                for directory in _ancestors(_V2, path):
                    yield directory, "memory.max", "memory.current", "inactive_file"
            elif "memory" in controllers.split(","):
                for directory in _ancestors(_V1, path):
                    yield (
                        directory,
                        "memory.limit_in_bytes",
                        "memory.usage_in_bytes",
                        "total_inactive_file",
                    )

    def _bytes(self, sensor: str) -> int | None:
        text = self._files.text(sensor)
        if text is None or not text.isdecimal() or len(text) > _MAX_DIGITS:
            return None
        return int(text) if int(text) < _NO_LIMIT_BYTES else None


def _ancestors(root: str, path: str) -> Iterator[str]:
    """The mount itself and every level down to the cgroup; a container sees only the first."""
    yield root
    directory = root
    for part in path.split("/"):
        if part in ("", ".", ".."):
            continue
        directory = f"{directory}/{part}"
        yield directory
