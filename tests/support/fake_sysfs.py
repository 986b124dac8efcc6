"""A sysfs and procfs tree in a directory, with drivers that fail on demand."""

from __future__ import annotations

import os
from pathlib import Path

from services.monitor.probes.sensor_files import read_text


class FakeSysfs:
    """Writes sensor files below `root`; `read` is the injectable reader that can fail."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._failures: dict[Path, int] = {}

    def write(self, sensor: str, value: object) -> None:
        """Sets a file's content as a driver would, in one step."""
        path = self.root / sensor
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(f"{value}\n")
        fresh.rename(path)

    def remove(self, sensor: str) -> None:
        """Takes a file away."""
        (self.root / sensor).unlink()

    def fail(self, sensor: str, error_number: int | None) -> None:
        """Makes reads of a file raise OSError with the number; None makes them work again."""
        path = self.root / sensor
        if error_number is None:
            self._failures.pop(path, None)
        else:
            self._failures[path] = error_number

    def read(self, path: Path) -> str:
        """Reads a file, or fails as told."""
        if path in self._failures:
            number = self._failures[path]
            raise OSError(number, os.strerror(number))
        return read_text(path)

    def add_zone(
        self,
        index: int,
        zone_type: str | None,
        temp: object,
        trips: dict[str, int] | None = None,
    ) -> str:
        """Adds a thermal zone; `temp` is what the file holds. Returns the file's path."""
        directory = f"sys/class/thermal/thermal_zone{index}"
        if zone_type is not None:
            self.write(f"{directory}/type", zone_type)
        for number, (kind, milli_celsius) in enumerate((trips or {}).items()):
            self.write(f"{directory}/trip_point_{number}_type", kind)
            self.write(f"{directory}/trip_point_{number}_temp", milli_celsius)
        self.write(f"{directory}/temp", temp)
        return f"{directory}/temp"

    def add_monitor(
        self, index: int, name: str, temp: object, *, label: str | None = None, number: int = 1
    ) -> str:
        """Adds a hwmon temperature. Returns the file's path."""
        directory = f"sys/class/hwmon/hwmon{index}"
        self.write(f"{directory}/name", name)
        if label is not None:
            self.write(f"{directory}/temp{number}_label", label)
        self.write(f"{directory}/temp{number}_input", temp)
        return f"{directory}/temp{number}_input"

    def add_cpu(self, index: int, current_khz: object, max_khz: object) -> None:
        """Adds a core with cpufreq."""
        directory = f"sys/devices/system/cpu/cpu{index}/cpufreq"
        self.write(f"{directory}/scaling_cur_freq", current_khz)
        self.write(f"{directory}/cpuinfo_max_freq", max_khz)

    def add_supply(self, name: str, **files: object) -> str:
        """Adds a power supply with the given files. Returns its directory."""
        directory = f"sys/class/power_supply/{name}"
        for file, value in files.items():
            self.write(f"{directory}/{file}", value)
        return directory

    def set_memory(self, *, total_kib: int, available_kib: int | None) -> None:
        """Writes /proc/meminfo."""
        lines = [f"MemTotal:       {total_kib} kB", "MemFree:           1 kB"]
        if available_kib is not None:
            lines.append(f"MemAvailable:   {available_kib} kB")
        self.write("proc/meminfo", "\n".join(lines))

    def set_stall(self, resource: str, percent: float) -> None:
        """Writes a PSI file."""
        tail = "avg60=0.00 avg300=0.00 total=0"
        self.write(
            f"proc/pressure/{resource}",
            f"some avg10={percent:.2f} {tail}\nfull avg10=0.00 {tail}",
        )
