"""NVIDIA GPUs: read through a stand-in for NVML; whatever the driver does is unknown at worst."""

from __future__ import annotations

import sys
from dataclasses import astuple

import pytest
from structlog.testing import capture_logs

from services.monitor.pressure import PressureLevel
from services.monitor.sample import GpuUse
from tests.support import standin_nvml
from tests.support.standin_nvml import NVMLError, StandinNvml

H200 = {
    "name": "NVIDIA H200",
    "celsius": 47,
    "gpu_percent": 25,
    "total": 150 * 2**30,
    "used": 3 * 2**30,
    "milliwatts": 120_500,
}


@pytest.fixture
def nvml(monkeypatch):
    """Installs a stand-in with the given GPUs."""

    def install(*gpus):
        standin = StandinNvml(*gpus)
        monkeypatch.setitem(sys.modules, "pynvml", standin)
        return standin

    return install


def test_a_gpu_is_read_and_counts_as_a_processor_zone(nvml, device, sysfs, pressure_of):
    nvml(H200)
    sysfs.add_zone(0, "cpu-thermal", 31000)
    sample = device.sample()
    assert sample.gpus == [
        GpuUse(
            index=0,
            name="NVIDIA H200",
            temperature_celsius=47.0,
            utilisation=0.25,
            memory_total_bytes=150 * 2**30,
            memory_used_bytes=3 * 2**30,
            power_w=120.5,
        )
    ]
    assert sample.temperature_celsius == 47.0
    state = pressure_of(sample).temperature
    assert (state.level, state.sensor) == (PressureLevel.ELEVATED, "gpu0_nvidia_h200")


def test_a_gpu_does_not_stand_in_for_the_boards_fallback_sensor(nvml, device, sysfs):
    nvml({**H200, "celsius": 40})
    sysfs.add_zone(0, "acpitz", 61000)
    assert device.sample().temperature_celsius == 61.0


def test_the_binding_may_be_missing(monkeypatch, device):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as Python marks what can not be imported
    with capture_logs() as logs:
        assert device.sample().gpus == []
    assert logs == []


def test_the_real_binding_without_a_driver_is_no_gpu(device):
    pynvml = pytest.importorskip("pynvml", reason="pip install 'edgelora[nvidia]'")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert device.sample().gpus == []
    else:
        assert device.sample().gpus


def test_a_driver_that_comes_later_is_found_within_a_minute(nvml, device, clock):
    standin = nvml(H200)
    standin.init_error = standin_nvml.ERROR_DRIVER_NOT_LOADED
    for _ in range(60):
        assert device.sample().gpus == []
        clock.advance(1.0)
    assert standin.num_inits == 1
    standin.init_error = None
    assert len(device.sample().gpus) == 1


def test_what_a_gpu_does_not_support_is_unknown(nvml, device):
    nvml({"name": "NVIDIA Tegra"})
    [gpu] = device.sample().gpus
    assert astuple(gpu) == (0, "NVIDIA Tegra", None, None, None, None, None)
    assert device.sample().thermal_zones == []


@pytest.mark.parametrize("name", ["celsius", "gpu_percent", "total", "used", "milliwatts"])
@pytest.mark.parametrize("error", [NVMLError(999), RuntimeError("driver bug"), OSError("gone")])
def test_a_call_that_fails_hides_nothing_else(nvml, device, name, error):
    nvml({**H200, name: error})
    [gpu] = device.sample().gpus
    assert sum(value is None for value in astuple(gpu)) == (2 if name in ("total", "used") else 1)


@pytest.mark.parametrize("celsius", [-274, 999, 4294967295])
def test_an_implausible_temperature_counts_as_missing_N03(nvml, device, celsius):
    nvml({**H200, "celsius": celsius})
    sample = device.sample()
    assert sample.gpus[0].temperature_celsius is None
    assert sample.temperature_celsius is None


def test_a_gpu_that_is_lost_hides_no_other_N02(nvml, device):
    nvml({"handle_error": standin_nvml.ERROR_GPU_IS_LOST}, {**H200, "celsius": 55})
    with capture_logs() as logs:
        sample = device.sample()
    assert [gpu.index for gpu in sample.gpus] == [1]
    assert sample.temperature_celsius == 55.0
    assert [log["sensor"] for log in logs] == ["nvidia/0"]


def test_a_driver_that_is_replaced_under_us_is_unknown_and_found_again(nvml, device, clock):
    standin = nvml(H200)
    assert device.sample().gpus
    standin.shut_down()
    assert device.sample().gpus == []
    clock.advance(60.0)
    assert device.sample().gpus
