"""What a benchmark is asked and what it answers: one JSON object, the same shape for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


def default_model_directory(environ: Mapping[str, str]) -> Path:
    """Returns where `edgelora model prepare` puts the default model."""
    return Path(environ.get("EDGELORA_HOME", ".edgelora")) / "models" / "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What a benchmark is asked to do."""

    quick: bool = False
    """Small enough for two cores and 60 s; the figures are rougher."""
    seed: int = 1
    model_directory: Path
    """A prepared model."""
    address: str | None = None
    """A running gateway; None lets the benchmark start a stack of its own."""
    api_key_file: Path | None = None
    """Holds the API key for `address`."""
    peers: Sequence[str] = ()
    """Engines to compare with, for the benchmarks that compare."""
    num_threads: int = 2
    """Threads each engine of a comparison computes with."""
    shape: str | None = None
    """Random weights of this shape (`360m` or `1.7b`) in place of the prepared model."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of the stacks a benchmark started, for its JSON; files are left out. Noted as they start."""
    progress: Callable[[str], None] = field(default=lambda line: None)
    """Takes one line of progress; never standard output."""

    def note_settings(self, settings: Mapping[str, str]) -> None:
        """Notes what a stack is started with beside the defaults."""
        self.settings.update(
            {name: value for name, value in settings.items() if not value.startswith("/")}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One figure and what it should be."""

    name: str
    target: str
    """In words, for example `>= 3`."""
    value: float | None
    """None when it could not be measured."""
    ok: bool

    @classmethod
    def at_least(cls, name: str, bound: float, value: float | None) -> Target:
        """A figure that should be `bound` or more."""
        ok = value is not None and value >= bound
        return cls(name=name, target=f">= {bound:g}", value=value, ok=ok)

    @classmethod
    def at_most(cls, name: str, bound: float, value: float | None) -> Target:
        """A figure that should be `bound` or less."""
        ok = value is not None and value <= bound
        return cls(name=name, target=f"<= {bound:g}", value=value, ok=ok)

    def document(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {"name": self.name, "target": self.target, "value": self.value, "ok": self.ok}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """What a benchmark found."""

    results: dict[str, Any]
    """Figures for JSON; a list of flat objects under a key is shown as a table."""
    targets: Sequence[Target] = ()


class Benchmark(Protocol):
    """What every benchmark module offers."""

    def run(self, options: BenchOptions) -> BenchResult:
        """Measures. Raises BenchError when it cannot."""
        ...


class BenchError(Exception):
    """A benchmark cannot be run; the message says what to do."""
