"""The encoders that `classify` compares, each in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.peers.process import PeerProcess
from bench.peers.roster import PEERS_DIRECTORY
from bench.peers.vectors import unpack_vectors

Form = Literal["adapters", "merged", "prepared"]
"""What the tasks of an engine are: adapters beside one model, whole models as Hugging Face has
them, or whole models prepared for the native core."""
OURS = "ours, adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEngine:
    """One engine in one form."""

    name: str
    module: Sequence[str]
    form: Form
    weights: str
    """Number format, for people."""
    peer: str | None = None
    """Its environment below PEERS_DIRECTORY; None for our own."""

    @property
    def interpreter(self) -> Path:
        """The Python that has its packages."""
        if self.peer is None:
            return Path(sys.executable)
        return PEERS_DIRECTORY / self.peer / "bin/python"

    @property
    def missing(self) -> str | None:
        """Why it can not be started; None when it can."""
        if self.peer is not None and not (PEERS_DIRECTORY / self.peer / ".ready").exists():
            return f"not installed: run `make bench-peers PEERS={self.peer}`"
        package = {"ours": "edgelora_native"}.get(self.name.split(",")[0], "peft")
        if self.peer is None and find_spec(package) is None:
            return f"the package {package} is not installed"
        return None


def _transformers(dtype: str, form: Form) -> EncoderEngine:
    words = "PEFT" if form == "adapters" else "whole models"
    module = ("bench.peers.encoder_transformers", dtype)
    return EncoderEngine(
        name=f"transformers {dtype}, {words}", module=module, form=form, weights=dtype
    )


_NATIVE = ("bench.peers.encoder_native",)
WHOLE = EncoderEngine(name="ours, whole models", module=_NATIVE, form="prepared", weights="8 bit")
TRANSFORMERS = _transformers("float32", "merged")
ENGINES = (
    EncoderEngine(name=OURS, module=_NATIVE, form="adapters", weights="8 bit"),
    WHOLE,
    _transformers("float32", "adapters"),
    TRANSFORMERS,
    _transformers("bfloat16", "adapters"),
    _transformers("bfloat16", "merged"),
    EncoderEngine(
        name="onnxruntime int8, whole models",
        module=("bench.peers.encoder_onnx",),
        form="merged",
        weights="8 bit",
        peer="onnxruntime",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """The same tasks in every form."""

    base: Path
    """The prepared encoder."""
    adapters: Sequence[Path]
    merged: Sequence[Path]
    prepared: Sequence[Path]


class LoadedEngine:
    """An engine whose process has loaded its tasks."""

    def __init__(self, engine: EncoderEngine, process: PeerProcess, version: str) -> None:
        self.engine = engine
        self.version = version
        self._process = process

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def encode(
        self, texts: Sequence[NDArray[np.int32]], tasks: Sequence[int]
    ) -> tuple[float, NDArray[np.float32]]:
        """The seconds it took, and the texts' vectors, each made for its task."""
        result: dict[str, Any] = self._process.ask(
            "encode", texts=[text.tolist() for text in texts], tasks=list(tasks)
        )
        return float(result["seconds"]), unpack_vectors(result["vectors"])


@contextmanager
def loaded(
    engine: EncoderEngine, files: TaskFiles, log_directory: Path, *, num_threads: int
) -> Iterator[LoadedEngine]:
    """Starts an engine's process and loads all tasks. Raises PeerError."""
    models = {"adapters": [files.base], "merged": files.merged, "prepared": files.prepared}
    log = log_directory / f"{engine.name.replace(' ', '-')}.log"
    environ = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "OMP_NUM_THREADS": str(num_threads),
    }
    with PeerProcess(engine.interpreter, engine.module, environ, log) as process:
        facts = process.ask(
            "load",
            models=[str(path) for path in models[engine.form]],
            adapters=[str(path) for path in files.adapters] if engine.form == "adapters" else [],
            threads=num_threads,
        )
        yield LoadedEngine(engine, process, str(facts["version"]))
