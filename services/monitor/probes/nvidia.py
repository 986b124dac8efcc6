"""NVIDIA graphics processors through NVML, where its Python binding (`nvidia-ml-py`) is installed.

Source: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from services.chassis.device_report import HIGH_CELSIUS, LOW_CELSIUS
from services.monitor.sample import GpuUse

_RETRY_S = 60.0

ValueT = TypeVar("ValueT")


class NvidiaProbe:
    """Reads every GPU. A driver that is absent, or fails in any way, is unknown."""

    def __init__(self, clock: Callable[[], float], warn: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._warn = warn
        self._nvml: Any = None
        self._retry_at_s: float | None = None

    def read(self) -> list[GpuUse]:
        """Returns the GPUs that answer, in the driver's order."""
        if self._nvml is None and not self._start():
            return []
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except Exception as error:  # noqa: BLE001 - a driver that was replaced under us
            self._fail(error)
            return []
        gpus = (self._read_one(index) for index in range(count))
        return [gpu for gpu in gpus if gpu is not None]

    def _start(self) -> bool:
        now_s = self._clock()
        if self._retry_at_s is not None and now_s < self._retry_at_s:
            return False
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception:  # noqa: BLE001 - no binding or no driver: no such GPU
            self._retry_at_s = now_s + _RETRY_S
            return False
        self._nvml = nvml
        return True

    def _fail(self, error: Exception) -> None:
        self._warn("nvidia", type(error).__name__)
        self._nvml = None
        self._retry_at_s = self._clock() + _RETRY_S

    def _read_one(self, index: int) -> GpuUse | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:  # noqa: BLE001 - fallen off the bus: the others are still read
            self._warn(f"nvidia/{index}", type(error).__name__)
            return None
        memory = _known(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return GpuUse(
            index=index,
            name=_known(lambda: str(nvml.nvmlDeviceGetName(handle))) or f"GPU {index}",
            temperature_celsius=_known(
                lambda: _within(
                    nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                    LOW_CELSIUS,
                    HIGH_CELSIUS,
                )
            ),
            utilisation=_known(
                lambda: _within(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0, 0.0, 1.0)
            ),
            memory_total_bytes=None if memory is None else int(memory.total),
            memory_used_bytes=None if memory is None else int(memory.used),
            power_w=_known(lambda: float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1000.0),
        )


def _known(read: Callable[[], ValueT]) -> ValueT | None:
    try:
        return read()
    except Exception:  # noqa: BLE001 - many GPUs do not tell everything
        return None


def _within(value: float, low: float, high: float) -> float | None:
    return float(value) if low <= value <= high else None
