"""The page and its pictures come from the JSON of the runs, and from nothing else."""

import json

import pytest
from click.testing import CliRunner

from bench.engine_cases import DISTINCT
from bench.page import main


def engine_document():
    runs = {
        case.name: {"native": [1000.0 / count] * 3, "openvino": [100.0 / count] * 3}
        for count, case in DISTINCT.items()
    }
    engines = [
        {"engine": "native", "adapter_applied": True},
        {"engine": "openvino", "adapter_applied": False},
    ]
    rows = [{"case": "8 streams, 8 adapters", "native": 125.0, "openvino": "12.5 (base)"}]
    return {
        "bench": "engine",
        "machine": {"cpu": "A Processor", "cores": 2, "memory_bytes": 24 << 30},
        "commit": "0123456789abcdef",
        "quick": False,
        "seed": 1,
        "results": {"model": "m", "engines": engines, "tokens_per_s": rows, "runs": runs},
        "targets": [{"name": "a / b", "target": ">= 10", "value": 9.5, "ok": False}],
    }


def serve_document():
    loads = [
        {"load": load, **{f"ttft_p{rank}_ms": load * rank for rank in (50, 90, 99)}}
        for load in (0.5, 2.0)
    ]
    return engine_document() | {
        "bench": "serve",
        "results": {"workload": {"num_adapters": 50}, "loads": loads},
        "targets": [],
    }


def stress_document():
    phases = [
        {"phase": "calm", "first_token_p50_ms": 50.0, "tokens_per_s": 600.0},
        {"phase": "memory 86 %", "first_token_p50_ms": None, "tokens_per_s": 0.0},
    ]
    return engine_document() | {
        "bench": "stress",
        "settings": {"EDGELORA_MONITOR_DWELL": "1s"},
        "results": {"phases": phases},
        "targets": [],
    }


@pytest.fixture
def write(tmp_path):
    results = tmp_path / "bench/results"
    results.mkdir(parents=True)

    def run(**documents):
        for name, document in documents.items():
            (results / f"{name}.json").write_text(json.dumps(document))
        return CliRunner().invoke(main, ["--root", str(tmp_path)])

    return run


def test_figures_targets_and_remarks_are_on_the_page(write, tmp_path):
    (tmp_path / "bench/results/engine.md").write_text("What it means.\n")
    assert write(engine=engine_document(), serve=serve_document()).exit_code == 0
    page = (tmp_path / "bench/RESULTS.md").read_text()
    assert "| 8 streams, 8 adapters | 125 | 12.5 (base) |" in page
    assert "| a / b | >= 10 | 9.5 | missed |" in page
    assert "`edgelora bench engine`; A Processor, 2 cores, 24 GiB, commit 0123456789ab." in page
    assert "What it means." in page
    assert "[1000.0" not in page  # single runs
    assert page.index("## Beside other engines") < page.index("## Open-loop load")


def test_pictures_show_every_engine_and_are_the_same_bytes_again(write, tmp_path):
    write(engine=engine_document(), serve=serve_document())
    pictures = sorted((tmp_path / "docs/images").glob("*.svg"))
    assert [one.name for one in pictures] == ["first-token.svg", "tokens-per-second.svg"]
    before = [one.read_bytes() for one in pictures]
    assert b"EdgeLoRA (native)" in before[1]
    assert b"openvino: served the base" in before[1]
    assert b"p99" in before[0]
    write()
    assert [one.read_bytes() for one in pictures] == before
    changed = engine_document()
    changed["results"]["runs"][DISTINCT[8].name]["native"] = [300.0]
    write(engine=changed)
    assert pictures[1].read_bytes() != before[1]


def test_settings_and_phases_are_shown(write, tmp_path):
    assert write(stress=stress_document()).exit_code == 0
    page = (tmp_path / "bench/RESULTS.md").read_text()
    assert "Settings: EDGELORA_MONITOR_DWELL 1s." in page
    assert "| memory 86 % | - | 0 |" in page
    assert b"memory 86 %" in (tmp_path / "docs/images/stress.svg").read_bytes()


def test_without_results_it_says_what_to_run(write):
    done = write()
    assert done.exit_code == 1
    assert "make bench-results" in done.output
