"""`edgelora bench`: what it hands on to a benchmark, and what it refuses."""

import click
import pytest
from click.testing import CliRunner

from bench.registry import BENCHMARKS
from edgelora.cli import bench as command


@pytest.fixture
def asked(monkeypatch):
    found = []

    def run(name, options, *, as_json):
        found.append((name, options, as_json))
        return 0

    monkeypatch.setattr(command, "run_and_print", run)
    return found


def invoke(*arguments):
    return CliRunner().invoke(command.bench, arguments, standalone_mode=False)


def test_all_peers_are_compared_with_unless_some_are_named(asked):
    invoke("engine")
    invoke("engine", "--peers", "vllm, torch")
    invoke("engine", "--peers", "")
    assert [options.peers for _, options, _ in asked] == [
        ("llama.cpp", "openvino", "vllm", "peft"),
        ("vllm", "torch"),
        (),
    ]


def test_an_unknown_peer_is_refused_with_those_known(asked):
    done = invoke("engine", "--peers", "vllm,ollama")
    assert "ollama: use llama.cpp, openvino, vllm, peft, engine, torch" in str(done.exception)
    assert asked == []


def test_shape_and_threads_are_handed_on(asked):
    invoke("engine", "--shape", "1.7b", "--threads", "4", "--quick", "--json")
    ((name, options, as_json),) = asked
    assert (name, options.shape, options.num_threads) == ("engine", "1.7b", 4)
    assert options.quick
    assert as_json
    assert isinstance(invoke("engine", "--shape", "7b").exception, Exception)
    assert len(asked) == 1


def test_the_help_says_what_each_benchmark_measures():
    lines = invoke("--help").output.splitlines()
    said = {line.split()[0] for line in lines if len(line.split()) > 3}
    assert {name.partition("-")[0] if "scenario" in name else name for name in BENCHMARKS} <= said


def test_a_scenario_is_named_with_its_benchmark_and_only_there(asked):
    invoke("scenario", "car")
    invoke("scenario", "shop")
    assert [name for name, _, _ in asked] == ["scenario-car", "scenario-shop"]
    for wrong in (["scenario"], ["scenario", "ship"], ["engine", "car"], ["scenario-car"]):
        assert isinstance(invoke(*wrong).exception, click.UsageError)
    assert len(asked) == 2
