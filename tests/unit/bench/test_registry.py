"""Every benchmark prints exactly one JSON object, whether or not its targets hold."""

import json
import sys
import types

import pytest

from bench import registry
from bench.result import BenchError, BenchOptions, BenchResult, Target


@pytest.fixture
def options(tmp_path):
    return BenchOptions(quick=True, model_directory=tmp_path)


@pytest.fixture
def add_benchmark(monkeypatch):
    def add(run):
        module = types.ModuleType("bench_under_test")
        module.run = run
        monkeypatch.setitem(sys.modules, "bench_under_test", module)
        monkeypatch.setitem(registry.BENCHMARKS, "under-test", "bench_under_test")

    return add


def test_one_json_object_and_status_0_though_a_target_is_missed(add_benchmark, options, capsys):
    result = BenchResult(results={"speed": 2.0}, targets=[Target.at_least("speed", 3.0, 2.0)])
    add_benchmark(lambda options: result)
    assert registry.run_and_print("under-test", options, as_json=True) == 0
    output = capsys.readouterr().out
    document = json.loads(output)
    assert output.count("\n") == 1
    assert document["results"] == {"speed": 2.0}
    assert document["targets"] == [{"name": "speed", "target": ">= 3", "value": 2.0, "ok": False}]
    assert document["machine"]["cores"] >= 1
    assert document["machine"]["cpu"]
    assert "commit" in document


def test_without_json_a_table_names_figures_and_verdicts(add_benchmark, options, capsys):
    result = BenchResult(
        results={"speed": 4.0, "rates": [{"rate": 1, "p50": 2.5}, {"rate": 2, "p90": 3.5}]},
        targets=[
            Target.at_least("speed", 3.0, 4.0),
            Target.at_most("delay", 1.0, None),
            Target.at_least("b", 2, 1),
        ],
    )
    add_benchmark(lambda options: result)
    assert registry.run_and_print("under-test", options, as_json=False) == 0
    output = capsys.readouterr().out
    for text in ("speed", "rates", "p50", "p90", "holds", "missed", "not measured", ">= 3", "<= 1"):
        assert text in output


def test_a_wide_table_is_laid_on_its_side(add_benchmark, options, capsys):
    rows = [{"load": load, **{f"figure_{n}": load * n for n in range(1, 20)}} for load in (2, 3)]
    add_benchmark(lambda options: BenchResult(results={"loads": rows}))
    registry.run_and_print("under-test", options, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if "figure_19" in line)
    assert line.replace("│", " ").split() == ["figure_19", "38", "57"]


def test_a_benchmark_that_cannot_run_is_one_clear_line(add_benchmark, options, capsys):
    def run(options):
        raise BenchError("model.safetensors is missing: run `edgelora model prepare` first")

    add_benchmark(run)
    assert registry.run_and_print("under-test", options, as_json=True) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "bench under-test: model.safetensors is missing: run `edgelora model prepare` first\n"
    )


def test_an_unknown_name_lists_the_known_ones(options):
    with pytest.raises(BenchError, match="engine, perplexity"):
        registry.run_benchmark("speed", options)


@pytest.mark.parametrize("name", list(registry.BENCHMARKS))
def test_every_registered_benchmark_can_be_loaded(name):
    assert callable(registry.load_benchmark(name).run)
