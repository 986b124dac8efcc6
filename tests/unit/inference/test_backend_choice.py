"""Which back end serves, and what the operator is told when none can."""

import dataclasses
import importlib.util

import pytest

from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE
from services.chassis.settings import ConfigError
from services.inference.backends import choice
from services.inference.backends.choice import BackendChoice, choose_backend, make_backend
from services.inference.backends.native_backend import NativeBackend
from services.inference.config import InferenceConfig
from tests.support.stand_in_backend import stand_in_model
from tests.support.worker_bench import worker_environ

BOTH = (NATIVE_FILE, FLOAT32_FILE)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Prepares a model with some weight files, on a machine with some back ends."""

    def make(files, *, native=True, torch=True):
        model = dataclasses.replace(stand_in_model(), files=dict.fromkeys(files, "sha256:"))
        model.save(tmp_path)
        obstacle = None if native else "the core is not built: run `make native`"
        monkeypatch.setattr(NativeBackend, "probe", staticmethod(lambda: obstacle))
        monkeypatch.setattr(NativeBackend, "setting_obstacle", staticmethod(lambda: None))
        found = importlib.util.find_spec("json") if torch else None
        monkeypatch.setattr(choice, "find_spec", lambda name: found)
        return tmp_path

    return make


@pytest.mark.parametrize("wanted", ["auto", "native"])
@pytest.mark.parametrize("torch", [True, False])
def test_native_goes_first_where_it_runs(machine, wanted, torch):
    assert choose_backend(wanted, machine(BOTH, torch=torch)).name == "native"


def test_torch_stands_in_and_the_reason_says_why(machine):
    chosen = choose_backend("auto", machine(BOTH, native=False))
    assert chosen.name == "torch"
    assert "run `make native`" in chosen.reason
    chosen = choose_backend("auto", machine([FLOAT32_FILE]))
    assert chosen.name == "torch"
    assert NATIVE_FILE in chosen.reason


def test_torch_can_be_asked_for(machine):
    assert choose_backend("torch", machine(BOTH)).name == "torch"


@pytest.mark.parametrize(
    ("wanted", "files", "there", "remedies"),
    [
        ("native", BOTH, {"native": False}, ["run `make native`"]),
        ("native", [FLOAT32_FILE], {}, ["--weights native"]),
        ("torch", BOTH, {"torch": False}, ["torch is not installed"]),
        ("torch", [NATIVE_FILE], {}, ["--weights float32"]),
        ("auto", [NATIVE_FILE], {"native": False}, ["run `make native`", "--weights float32"]),
        ("auto", [FLOAT32_FILE], {"torch": False}, ["--weights native", "torch is not installed"]),
    ],
)
def test_when_none_can_serve_every_remedy_is_named(machine, wanted, files, there, remedies):
    with pytest.raises(ConfigError, match=r"^EDGELORA_INFERENCE_BACKEND: ") as caught:
        choose_backend(wanted, machine(files, **there))
    assert all(remedy in str(caught.value) for remedy in remedies)
    assert len(str(caught.value).splitlines()) == 1


def test_torch_does_not_stand_in_for_a_mistyped_instruction_set(tmp_path, monkeypatch):
    if NativeBackend.probe() is not None:
        pytest.skip("the native core is not installed")
    dataclasses.replace(stand_in_model(), files=dict.fromkeys(BOTH, "sha256:")).save(tmp_path)
    monkeypatch.setenv("EDGELORA_ISA", "avx3")
    for wanted in ("auto", "native"):
        with pytest.raises(ConfigError, match="EDGELORA_ISA names an unknown instruction set"):
            choose_backend(wanted, tmp_path)
    assert choose_backend("torch", tmp_path).name == "torch"


def test_a_directory_that_was_not_prepared_is_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        choose_backend("auto", tmp_path)
    (tmp_path / "edgelora_model.json").write_text('{"format_version": 1}')
    with pytest.raises(ConfigError, match="model prepare"):
        choose_backend("auto", tmp_path)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [("native", "BLOCK_SIZE", "32"), ("torch", "KV_CACHE_DTYPE", "int8")],
)
def test_a_setting_the_back_end_can_not_work_with_is_named(tmp_path, name, setting, value):
    if name == "native" and NativeBackend.probe() is not None:
        pytest.skip("the native core is not installed")
    environ = worker_environ(tmp_path, tmp_path, **{"BLOCK_SIZE": "16", setting: value})
    with pytest.raises(ConfigError, match=f"^EDGELORA_INFERENCE_{setting}"):
        make_backend(BackendChoice(name, "a test"), InferenceConfig.from_env(environ))
