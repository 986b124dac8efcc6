"""Reads sensor files below a root directory. A bad file is None, and never an exception."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path

from services.chassis.logs import get_logger

_MAX_FILE_BYTES = 16 * 1024
_WARNING_INTERVAL_S = 60.0


def read_text(path: Path) -> str:
    """Returns the text of a file's beginning. Raises OSError.

    A pipe in the place of a file is read as far as it is filled, and never waited for.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        return (file.read(_MAX_FILE_BYTES) or b"").decode(errors="replace")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def log_unreadable(sensor: str, cause: str) -> None:
    """Logs that a sensor gave nothing."""
    get_logger().warning("sensor_unreadable", sensor=sensor, cause=cause)


class SensorFiles:
    """Files of sysfs and procfs by their path below `root`.

    Drivers report "no value now" in many ways: the file is missing, or opens and fails to read
    (EIO, ENODEV, EBUSY, EINVAL), or holds nothing, or holds words. All of them mean unknown. All
    but a missing file are told to `on_unreadable`, at most once a minute for each sensor.
    """

    def __init__(
        self,
        root: Path,
        clock: Callable[[], float],
        read: Callable[[Path], str] = read_text,
        on_unreadable: Callable[[str, str], None] = log_unreadable,
    ) -> None:
        self._root = root
        self._clock = clock
        self._read = read
        self._on_unreadable = on_unreadable
        self._warned_at_s: dict[str, float] = {}

    def text(self, sensor: str) -> str | None:
        """Returns the stripped text of a file; None when there is none."""
        try:
            text = self._read(self._root / sensor).strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, type(error).__name__)
            self.warn(sensor, code)
            return None
        if not text:
            self.warn(sensor, "empty")
            return None
        return text

    def number(self, sensor: str, *, low: float, high: float) -> float | None:
        """Returns the number in a file; None when there is none within [low, high]."""
        text = self.text(sensor)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            self.warn(sensor, "not a plausible number")
            return None
        return number

    def names(self, directory: str, pattern: str) -> list[str] | None:
        """Returns the entries of a directory that match, sorted; None when it can not be read."""
        path = self._root / directory
        try:
            return sorted(entry.name for entry in path.iterdir() if entry.match(pattern))
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warn(directory, errno.errorcode.get(error.errno or 0, type(error).__name__))
            return None

    def warn(self, sensor: str, cause: str) -> None:
        """Tells that a sensor gave nothing, at most once a minute."""
        now_s = self._clock()
        warned_at_s = self._warned_at_s.get(sensor)
        if warned_at_s is not None and now_s < warned_at_s + _WARNING_INTERVAL_S:
            return
        self._warned_at_s[sensor] = now_s
        self._on_unreadable(sensor, cause)
