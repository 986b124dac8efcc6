"""Who may import what, and how large a module may grow."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted(
    path
    for folder in ("edgelora", "services", "bench")
    for path in (ROOT / folder).rglob("*.py")
    if "edgelora/v1/" not in str(path)
)
MAX_LINES = 500


@cache
def imports(path):
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            packages.add(node.module.split(".")[0])
    return packages


def importers_of(package):
    return {str(path.relative_to(ROOT)) for path in OURS if package in imports(path)}


def test_only_the_hot_index_imports_redis():
    assert importers_of("redis") == {"services/adapter_store/hot_index.py"}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        (
            "torch",
            (
                "services/inference/backends/torch",
                "services/inference/encoder/torch",
                "edgelora/toolchain/",
                "bench/",
            ),
        ),
        ("peft", ("edgelora/toolchain/", "bench/")),
        ("transformers", ("edgelora/toolchain/", "bench/")),
    ],
)
def test_heavy_libraries_stay_in_their_rooms(package, allowed):
    strangers = {path for path in importers_of(package) if not path.startswith(allowed)}
    assert strangers == set()
    assert importers_of(package)


def test_nothing_that_serves_can_unpickle():
    assert importers_of("pickle") | importers_of("dill") | importers_of("joblib") == set()
    serving = [path for path in OURS if path.is_relative_to(ROOT / "services")]
    assert not [path for path in serving if "torch.load" in path.read_text()]


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outgrows_its_noun(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_only_what_is_loaded_on_demand_imports_metrics_and_traces():
    """Neither costs a process anything where it is off."""
    services = [path for path in OURS if path.is_relative_to(ROOT / "services")]
    assert importers_of("opentelemetry") == {"services/chassis/otlp_tracer.py"}
    metrics = importers_of("prometheus_client")
    assert metrics
    assert all(path.endswith("metrics.py") for path in metrics)
    for path in services:
        if path.name.endswith("metrics.py"):
            continue
        loaded_at_start = {
            node.module.rpartition(".")[2]
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom) and node.module
        }
        assert not {name for name in loaded_at_start if name.endswith("metrics")}, path
