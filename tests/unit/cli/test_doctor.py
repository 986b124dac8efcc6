"""What `doctor` says of devices good and bad."""

import dataclasses
import json
import os

import pytest

from edgelora.cli import device_checks
from edgelora.cli.device_checks import Finding, Level
from edgelora.cli.main import run
from edgelora.cli.software_checks import back_ends, ports
from edgelora.local_stack.layout import StackLayout
from edgelora.local_stack.state_file import StackState
from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE, file_digest
from services.inference.backends.native_backend import NativeBackend
from tests.support.prepared_model import prepared_model
from tests.support.stand_in_backend import stand_in_model

GB = 10**9


@pytest.mark.parametrize(
    ("total", "limit", "level"),
    [
        (8.2 * GB, None, Level.OK),
        (5.8 * GB, None, Level.OK),  # a device of nominally 6 GB
        (3.8 * GB, None, Level.WARNING),  # nominally 4 GB
        (2.0 * GB, None, Level.PROBLEM),
        (64 * GB, 2 * GB, Level.PROBLEM),  # a container's share of a large machine
        (4 * GB, 64 * GB, Level.WARNING),
    ],
)
def test_memory_is_judged_by_nominal_size_and_the_limit_of_the_group(total, limit, level):
    assert device_checks.memory(int(total), limit and int(limit)).level is level


def test_little_free_memory_is_a_warning():
    assert device_checks.available(GB).level is Level.WARNING
    assert device_checks.available(3 * GB).level is Level.OK


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("cpuinfo", "level", "word"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512_vnni\n", Level.OK, "avx2, avx512_vnni"),
        ("Features\t: fp asimd asimddp i8mm\n", Level.OK, "asimd, asimddp, i8mm"),
        ("flags\t\t: fpu sse2\n", Level.WARNING, "slow"),
    ],
)
def test_instructions_of_both_families_are_known(tmp_path, cpuinfo, level, word):
    write(tmp_path, "proc/cpuinfo", cpuinfo)
    finding = device_checks.instructions(tmp_path)
    assert finding.level is level
    assert word in finding.text


def test_the_command_prints_json_and_its_status_tells_whether_all_is_well(tmp_path, capsys):
    status = run(["doctor", "--json", "--home", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    names = {finding["name"] for finding in document["findings"]}
    assert {
        "cores",
        "memory",
        "disk",
        "Python",
        "native core",
        "torch",
        "Redis",
        "model",
        "ports",
    } <= names
    assert document["ok"] is (status == 0)
    assert document["ok"] is all(f["level"] != "problem" for f in document["findings"])


TORCH = {
    "runs": Finding("torch", Level.OK, "2.13.0"),
    "missing": Finding("torch", Level.UNKNOWN, "not installed"),
    "broken": Finding("torch", Level.WARNING, "dies on import"),
}
OBSTACLE = "the native core is not installed: run `make native`"


@pytest.mark.parametrize("torch", TORCH.values(), ids=TORCH)
def test_with_the_native_core_nobody_needs_torch(torch):
    core, other = back_ends(None, torch)
    assert core.level is Level.OK
    assert other == torch


def test_torch_may_stand_in_for_the_native_core():
    core, _ = back_ends(OBSTACLE, TORCH["runs"])
    assert core.level is Level.WARNING
    assert OBSTACLE in core.text


@pytest.mark.parametrize("torch", ["missing", "broken"])
def test_without_either_there_is_something_to_change(torch):
    core, _ = back_ends(OBSTACLE, TORCH[torch])
    assert core.level is Level.PROBLEM
    assert OBSTACLE in core.text


def test_a_model_is_shown_with_what_computes_it(capsys):
    assert run(["doctor", "--json", "--home", str(prepared_model().parents[1])]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    (model,) = (finding for finding in findings if finding["name"] == "model")
    expected = (
        "(torch, several times slower: "
        if NativeBackend.probe()
        else "(native, KV cache in float16)"
    )
    assert f"smollm2-135m-instruct {expected}" in model["text"]


def test_torch_for_want_of_packed_weights_is_a_warning_with_the_remedy(tmp_path, capsys):
    """As `make test` left it: the core is there, and torch would compute without a word."""
    if NativeBackend.probe() is not None:
        pytest.skip("the native core is not installed")
    folder = tmp_path / "models/other"
    folder.mkdir(parents=True)
    (folder / FLOAT32_FILE).write_bytes(b"weights")
    files = {FLOAT32_FILE: file_digest(folder / FLOAT32_FILE)}
    dataclasses.replace(stand_in_model(), name="other", files=files).save(folder)
    assert run(["doctor", "--json", "--home", str(tmp_path)]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    (model,) = (finding for finding in findings if finding["name"] == "model")
    assert model["level"] == "warning"
    assert "edgelora model prepare SOURCE --name other --weights native" in model["text"]


def test_weights_that_were_cut_are_a_problem_with_the_remedy(tmp_path, capsys):
    folder = tmp_path / "models/stand-in"
    folder.mkdir(parents=True)
    file = FLOAT32_FILE if NativeBackend.probe() else NATIVE_FILE
    (folder / file).write_bytes(b"whole")
    files = {file: file_digest(folder / file)}
    dataclasses.replace(stand_in_model(), files=files).save(folder)
    (folder / file).write_bytes(b"who")
    assert run(["doctor", "--home", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"{file} of model stand-in is not what was prepared: run `edgelora model prepare" in out


def test_a_model_nobody_can_serve_is_a_problem_with_the_remedy(tmp_path, capsys):
    folder = tmp_path / "models/stand-in"
    folder.mkdir(parents=True)
    stand_in_model().save(folder)
    assert run(["doctor", "--home", str(tmp_path)]) == 1
    assert "edgelora model prepare" in capsys.readouterr().out


def test_a_machine_without_redis_is_told_what_to_install(tmp_path, capsys, monkeypatch):
    from edgelora.local_stack import redis_binary

    monkeypatch.setattr(redis_binary, "_PROGRAMS", [])
    monkeypatch.setattr(redis_binary, "_PACKAGE", "no_such_package")
    assert run(["doctor", "--home", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "install redis-server" in out
    assert "1 to change before this machine can carry the load" in out


def test_ports_that_are_taken_are_named_with_what_they_are_for(tmp_path):
    layout = StackLayout.of(tmp_path, {})
    assert ports(layout, lambda port: True).level is Level.OK
    finding = ports(layout, lambda port: port == 50051)
    assert finding.level is Level.WARNING
    assert finding.text == "8080 (HTTP), 8081 (dashboard) in use: others will be taken"


def test_the_ports_of_a_stack_that_runs_are_its_own(tmp_path):
    layout = StackLayout.of(tmp_path, {})
    StackState(
        launcher_pid=os.getpid(),
        run_dir="/run",
        gateway_address="127.0.0.1:1",
        http_address="127.0.0.1:2",
        dashboard_address="127.0.0.1:3",
        admin_address="unix:/admin",
        model="m",
        is_ready=True,
    ).save(layout.state_file)
    finding = ports(layout, lambda port: False)
    assert finding.level is Level.OK
    assert finding.text == "a stack serves on 127.0.0.1:1, 127.0.0.1:2 and 127.0.0.1:3"
