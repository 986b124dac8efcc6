"""The benchmarks by name, and how one is run and printed."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, cast

from rich.console import Console

from bench.machine import current_commit, describe_machine
from bench.report import print_report
from bench.result import BenchError, Benchmark, BenchOptions
from edgelora.local_stack.stop_signals import StopSignals

BENCHMARKS: dict[str, str] = {
    "engine": "bench.engine",
    "perplexity": "bench.perplexity",
    "quant": "bench.quant",
    "sampling": "bench.sampling",
    "worker": "bench.worker",
    "end-to-end": "bench.end_to_end",
    "first-token": "bench.first_token",
    "sessions": "bench.sessions",
    "doors": "bench.doors",
    "serve": "bench.serve",
    "scale": "bench.scale",
    "warmup": "bench.warmup",
    "codec": "bench.codec",
    "export": "bench.export",
    "loads": "bench.loads",
    "constraints": "bench.constraints",
    "tiers": "bench.tiers",
    "adapters": "bench.registry_scale",
    "routing": "bench.routing",
    "classify": "bench.classify",
    "priority": "bench.priority",
    "stress": "bench.stress",
    "scenario-car": "bench.scenario_car",
    "scenario-shop": "bench.scenario_shop",
}
"""Name -> module with `run(options)`; imported on use, since some need torch."""


def load_benchmark(name: str) -> Benchmark:
    """Returns a benchmark's module. Raises BenchError for an unknown name."""
    if name not in BENCHMARKS:
        raise BenchError(f"there is no benchmark {name!r}: use one of {', '.join(BENCHMARKS)}")
    return cast(Benchmark, importlib.import_module(BENCHMARKS[name]))


def run_benchmark(name: str, options: BenchOptions) -> dict[str, Any]:
    """Runs one benchmark and returns its JSON object."""
    benchmark = load_benchmark(name)
    machine = describe_machine()
    result = benchmark.run(options)
    return {
        "bench": name,
        "machine": machine,
        "commit": current_commit(),
        "quick": options.quick,
        "seed": options.seed,
        "settings": dict(sorted(options.settings.items())),
        "results": result.results,
        "targets": [target.document() for target in result.targets],
    }


def run_and_print(name: str, options: BenchOptions, *, as_json: bool) -> int:
    """Runs one benchmark and prints it to standard output.

    Returns the exit status: 0 whether or not the targets hold, 1 when it could not be run.
    """
    try:
        # A benchmark that is stopped stops the processes it started, and leaves no files.
        with StopSignals():
            document = run_benchmark(name, options)
    except BenchError as error:
        sys.stderr.write(f"bench {name}: {error}\n")
        return 1
    if as_json:
        print(json.dumps(document, allow_nan=False))
    else:
        print_report(document, Console())
    return 0
