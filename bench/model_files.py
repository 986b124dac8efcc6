"""The forms of one model that a comparison needs: prepared, fp32, GGUF in two quantisations."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.deployment import load_base_model
from bench.peers.process import PeerError
from bench.peers.roster import Contender, contenders
from bench.random_gguf import write_random_gguf
from bench.result import BenchError, BenchOptions
from bench.shapes import SHAPES
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.prepare import DEFAULT_NAME, prepare
from edgelora.toolchain.wheel import default_gguf
from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE, BaseModel

_WEIGHTS_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Where the forms of one model are."""

    directory: Path
    """Prepared."""
    ggufs: dict[str, Path] = field(default_factory=dict)
    """Quantisation (Q4_0, Q4_1) -> file."""

    @property
    def model(self) -> BaseModel:
        """The model's description."""
        return BaseModel.load(self.directory)

    def missing(self, contender: Contender) -> str | None:
        """Which form a contender needs and is not there; None when it can be loaded."""
        if contender.model == "prepared":
            wanted = NATIVE_FILE
        elif contender.model == "float32":
            wanted = FLOAT32_FILE
        else:
            has_it = contender.model in self.ggufs
            return None if has_it else f"there is no {contender.model} GGUF of this model"
        if (self.directory / wanted).is_file():
            return None
        return f"{wanted} is missing: run `edgelora model prepare --weights both`"

    def arguments(self, contender: Contender) -> dict[str, str]:
        """The argument of `load` that names the model."""
        if contender.model in self.ggufs:
            return {"gguf": str(self.ggufs[contender.model])}
        return {"model_directory": str(self.directory.resolve())}


def find_model_files(options: BenchOptions) -> ModelFiles:
    """Returns the files of the prepared model, or of random weights when a shape is asked for.

    What can be made from what is there is made, and kept in the cache. Raises BenchError.
    """
    cache = options.model_directory.parent.parent / "cache" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    if options.shape is not None:
        return _random_model(options.shape, cache, options)
    model = load_base_model(options)
    ggufs: dict[str, Path] = {}
    if model.name == DEFAULT_NAME:
        # The published file is Q4_1.
        ggufs["Q4_1"] = _default_gguf(cache.parent)
        q4_0 = cache / f"{DEFAULT_NAME}-Q4_0.gguf"
        if not q4_0.is_file():
            options.progress("quantising Q4_0 with llama.cpp")
            if problem := quantise(ggufs["Q4_1"], q4_0, "Q4_0"):
                options.progress(f"no Q4_0: {problem}")
        if q4_0.is_file():
            ggufs["Q4_0"] = q4_0
    return ModelFiles(directory=options.model_directory, ggufs=ggufs)


def _random_model(name: str, cache: Path, options: BenchOptions) -> ModelFiles:
    if name not in SHAPES:
        raise BenchError(f"there is no shape {name!r}: use one of {', '.join(SHAPES)}")
    gguf = cache / f"random-{name}-Q4_0.gguf"
    directory = cache / "models" / f"random-{name}"
    try:
        if not gguf.is_file():
            options.progress(f"writing random weights of the {name} shape")
            vocabulary = default_gguf(cache.parent)
            write_random_gguf(gguf, SHAPES[name], vocabulary=vocabulary, seed=_WEIGHTS_SEED)
        if not directory.is_dir():
            options.progress("preparing them")
            prepare(gguf, cache, directory.name, weights="native")
    except ToolchainError as error:
        raise BenchError(str(error)) from error
    return ModelFiles(directory=directory, ggufs={"Q4_0": gguf})


def _default_gguf(cache: Path) -> Path:
    try:
        return default_gguf(cache)
    except ToolchainError as error:
        raise BenchError(str(error)) from error


def quantise(source: Path, target: Path, kind: str) -> str | None:
    """Writes `target` as `kind` (F32, Q4_0 ...) with llama.cpp's quantiser.

    Returns why not, or None.
    """
    contender = contenders(["llama.cpp"])[1]
    if contender.missing:
        return contender.missing
    part = target.with_suffix(".part")
    with (
        tempfile.TemporaryDirectory(prefix="edgelora-bench-") as logs,
        contender.start(Path(logs)) as process,
    ):
        try:
            process.ask("quantise", source=str(source), target=str(part), kind=kind)
        except PeerError as error:
            return str(error)
    part.replace(target)
    return None
