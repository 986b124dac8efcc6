"""A stand-in for the module `pynvml`, written from NVIDIA's NVML API reference.

It has the calls and units of the specification: whole degrees Celsius, per cent, bytes and
milliwatts; every call but `nvmlInit` fails before it. Each GPU is a dictionary of what it answers;
an answer that is an NVML error code is raised.
"""

from __future__ import annotations

from types import SimpleNamespace

ERROR_UNINITIALIZED = 1
ERROR_NOT_SUPPORTED = 3
ERROR_DRIVER_NOT_LOADED = 9
ERROR_GPU_IS_LOST = 15


class NVMLError(Exception):
    """A return code other than NVML_SUCCESS."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class StandinNvml:
    """Put it at `sys.modules["pynvml"]`."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, *gpus: dict[str, object]) -> None:
        self.gpus = list(gpus)
        self.init_error: int | None = None
        self.num_inits = 0
        self._is_initialised = False

    def shut_down(self) -> None:
        """As when the driver is replaced while it is in use."""
        self._is_initialised = False

    def nvmlInit(self) -> None:
        self.num_inits += 1
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self._is_initialised = True

    def nvmlDeviceGetCount(self) -> int:
        self._check()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, object]:
        self._check()
        gpu = self.gpus[index]
        if "handle_error" in gpu:
            raise NVMLError(gpu["handle_error"])
        return gpu

    def nvmlDeviceGetName(self, handle) -> str:
        return self._answer(handle, "name")

    def nvmlDeviceGetTemperature(self, handle, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._answer(handle, "celsius")

    def nvmlDeviceGetUtilizationRates(self, handle) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._answer(handle, "gpu_percent"), memory=0)

    def nvmlDeviceGetMemoryInfo(self, handle) -> SimpleNamespace:
        total, used = self._answer(handle, "total"), self._answer(handle, "used")
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetPowerUsage(self, handle) -> int:
        return self._answer(handle, "milliwatts")

    def _answer(self, handle, name: str):
        self._check()
        answer = handle.get(name, NVMLError(ERROR_NOT_SUPPORTED))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _check(self) -> None:
        if not self._is_initialised:
            raise NVMLError(ERROR_UNINITIALIZED)
