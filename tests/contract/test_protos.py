"""The protos follow the rules, and the committed code is what they generate."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

import edgelora.v1

ROOT = Path(__file__).resolve().parents[2]


def test_generated_code_is_current():
    result = subprocess.run(
        [sys.executable, "protos/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_buf_lint_finds_nothing():
    buf = Path(sys.executable).parent / "buf"
    result = subprocess.run([buf, "lint"], cwd=ROOT / "protos", capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def services():
    for module in pkgutil.iter_modules(edgelora.v1.__path__):
        if module.name.endswith("_service_pb2"):
            descriptor = importlib.import_module(f"edgelora.v1.{module.name}").DESCRIPTOR
            yield from descriptor.services_by_name.values()


@pytest.mark.parametrize("service", list(services()), ids=lambda service: service.name)
def test_every_get_and_list_method_declares_that_it_changes_nothing(service):
    levels = descriptor_pb2.MethodOptions.IdempotencyLevel
    for method in service.methods:
        if method.name.startswith(("Get", "List", "Watch")):
            level = method.GetOptions().idempotency_level
            assert level == levels.Value("NO_SIDE_EFFECTS"), method.full_name
