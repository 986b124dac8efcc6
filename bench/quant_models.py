"""The models that `quant` judges by, each in every form of its weights; kept in the cache."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from edgelora_native.matrices import Matrix

from bench.model_files import quantise
from bench.peers.roster import NATIVE, Contender, contenders
from bench.quant_cache import code_digest, fingerprint
from bench.quant_files import Matrices, gguf_matrices, packed_matrices, write_float32_gguf
from bench.result import BenchError, BenchOptions
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.prepare import DEFAULT_NAME, prepare
from edgelora.toolchain.quantisation.mixed_rounding import MixedRounding
from edgelora.toolchain.quantisation.options import QuantisationOptions, SizeBudget
from edgelora.toolchain.rounding import HalfPrecision, PlainRounding, Rounding
from edgelora.toolchain.wheel import default_gguf
from services.chassis.base_model import FLOAT32_FILE, NATIVE_FILE, file_digest

DEFAULT, ROTATED, TUNED = "default", "rotated", "fine-tuned"
HALF, PLAIN, MIXED, LARGER, SOURCE = "bfloat16", "plain", "mixed", "mixed-2.9x", "float32"
"""LARGER is MIXED with another budget: the 16 bits over 2.9."""
SMALLER = 2.9
"""How many times smaller than 16 bits the weights should be at least."""
LLAMA_KINDS = ("Q4_0", "Q4_1", "Q4_K_M")
LLAMA = contenders(["llama.cpp"])[1]
FLOAT32 = contenders(["peft"])[1]
"""transformers, in float32; no adapter is loaded."""
_TUNING_STEPS, _TUNING_TOKENS = 300, 64
_CHANGE_FILE = "quantisation_change.json"
_ROOT = Path(__file__).resolve().parents[1]
_VERSIONS = ("numpy", "torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a model's weights, and who computes with it."""

    model: str
    weights: str
    contender: Contender
    place: Path
    """A GGUF file, else a directory."""
    file: Path
    """The weights."""
    matrices: Matrices | None
    """None for float32."""
    largest_change: float | None = None
    """Of a weight; None where it was not looked at."""

    @property
    def arguments(self) -> dict[str, str]:
        """The argument of `load` that names the model."""
        if self.contender is LLAMA:
            return {"gguf": str(self.place)}
        return {"model_directory": str(self.place.resolve())}


class _Watched:
    """A rounding, and by how much it changes weights."""

    def __init__(self, rounding: Rounding) -> None:
        self._rounding = rounding
        self.name = rounding.name
        self.bytes_per_weight = rounding.bytes_per_weight
        self.largest_change = 0.0

    def begin(self, source: ModelSource) -> None:
        """See Rounding."""
        self._rounding.begin(source)

    def matrices(self, source: ModelSource, names: Sequence[str]) -> list[Matrix]:
        """See Rounding."""
        found = self._rounding.matrices(source, names)
        for name, matrix in zip(names, found, strict=True):
            change = np.abs(matrix.dequantise() - source.tensors[name].float32()).max()
            self.largest_change = max(self.largest_change, float(change))
        return found

    def report(self) -> dict[str, str]:
        """See Rounding."""
        return {**self._rounding.report(), _CHANGE_FILE: json.dumps(self.largest_change)}


class Workshop:
    """Makes what is missing in the cache."""

    def __init__(self, options: BenchOptions, calibration: Path) -> None:
        """`calibration`: the text that is tuned and calibrated on. Raises BenchError."""
        if options.model_directory.name != DEFAULT_NAME:
            raise BenchError("quant judges variants of the default model: leave out --model")
        if not (options.model_directory / FLOAT32_FILE).is_file():
            raise BenchError(
                f"{FLOAT32_FILE} is missing: run `edgelora model prepare --weights both`"
            )
        self._options = options
        self._calibration = calibration
        home = options.model_directory.parent.parent
        self.cache = home / "cache" / "bench" / "quant"
        self.cache.mkdir(parents=True, exist_ok=True)
        try:
            self._published = default_gguf(home / "cache")
        except ToolchainError as error:
            raise BenchError(str(error)) from error
        self.missing: dict[str, str] = {}
        """What could not be made -> why."""

    def forms(self, model: str) -> list[Form]:
        """All forms of one model, float32 first."""
        place = self._source(model)
        packed = self._published if model == DEFAULT else place
        source = open_gguf(packed) if packed.is_file() else open_directory(packed)
        assert isinstance(source, ModelSource)
        directory = self._options.model_directory if model == DEFAULT else place
        exact = Form(
            model=model,
            weights=SOURCE,
            contender=FLOAT32,
            place=directory,
            file=directory / FLOAT32_FILE,
            matrices=None,
        )
        llama = self._llama_forms(model, source)
        # What lies on a 4-bit grid stays there: plain and mixed are the same numbers.
        wanted: dict[str, SizeBudget | None] = {HALF: None, MIXED: None}
        if model != DEFAULT:
            larger = SizeBudget(bits_per_weight=16 / SMALLER)
            equal = SizeBudget(num_bytes=_q4_0_bytes(source))
            wanted = {HALF: None, PLAIN: None, MIXED: equal, LARGER: larger}
        ours = [
            self._native_form(model, packed, source.digest, weights, budget)
            for weights, budget in wanted.items()
        ]
        return [exact, *ours, *llama]

    def _mixed_options(self, budget: SizeBudget | None) -> QuantisationOptions:
        if not self._options.quick:
            return QuantisationOptions(calibration=self._calibration, size_budget=budget)
        return QuantisationOptions(
            calibration=self._calibration,
            size_budget=budget,
            inputs=4,
            input_tokens=64,
            sensitivity_inputs=1,
            sensitivity_tokens=16,
            held_out_inputs=1,
        )

    def _mixed_key(self, budget: SizeBudget | None) -> list[object]:
        options = dataclasses.replace(self._mixed_options(budget), calibration=None)
        torch = importlib.metadata.version("torch")
        return [repr(options), file_digest(self._calibration), torch, self._options.num_threads]

    def _source(self, model: str) -> Path:
        """A directory as Hugging Face has it, of float32 weights; the published file as default."""
        from bench import weight_variants

        if model == DEFAULT:
            return self._published
        key = fingerprint(
            file_digest(self._published),
            code_digest(_ROOT / "bench/weight_variants.py"),
            [importlib.metadata.version(name) for name in _VERSIONS],
            model,
            file_digest(self._calibration) if model == TUNED else None,
            (_TUNING_STEPS, _TUNING_TOKENS),
        )
        target = self.cache / "sources" / f"{model}-{key}"
        if target.is_dir():
            return target
        self._options.progress(f"making the {model} model")
        source = self._options.model_directory
        if model == ROTATED:
            weight_variants.rotate(source, target)
        else:
            weight_variants.fine_tune(
                source,
                target,
                self._calibration,
                steps=_TUNING_STEPS,
                window_tokens=_TUNING_TOKENS,
            )
        return target

    def _native_form(
        self,
        model: str,
        packed: Path,
        digest: str,
        weights: str,
        budget: SizeBudget | None,
    ) -> Form:
        is_mixed = weights in (MIXED, LARGER)
        key = fingerprint(
            digest,
            weights,
            self._mixed_key(budget) if is_mixed else None,
            _rounding_code(is_mixed=is_mixed),
        )
        name = f"{model}-{weights}-{key}"
        directory = self.cache / "models" / name
        if not directory.is_dir():
            self._options.progress(f"{model}: rounding to {weights}")
            try:
                watched = _Watched(self._rounding(weights, budget))
                prepare(packed, self.cache, name, weights="native", rounding=watched)
            except ToolchainError as error:
                raise BenchError(str(error)) from error
        file = directory / NATIVE_FILE
        return Form(
            model=model,
            weights=weights,
            contender=NATIVE,
            place=directory,
            file=file,
            matrices=packed_matrices(file),
            largest_change=json.loads((directory / _CHANGE_FILE).read_text(encoding="utf-8")),
        )

    def _rounding(self, weights: str, budget: SizeBudget | None) -> Rounding:
        if weights in (MIXED, LARGER):
            return MixedRounding(self._mixed_options(budget))
        return HalfPrecision() if weights == HALF else PlainRounding()

    def _llama_forms(self, model: str, source: ModelSource) -> list[Form]:
        if LLAMA.missing:
            self.missing["llama.cpp"] = LLAMA.missing
            return []
        # The default model is published in Q4_1, which llama.cpp turns into another kind.
        kinds = LLAMA_KINDS[:1] if model == DEFAULT else LLAMA_KINDS
        key = fingerprint(
            source.digest, llama_version(), code_digest(_ROOT / "bench/quant_files.py")
        )
        targets = {kind: self.cache / f"{model}-{key}-{kind}.gguf" for kind in kinds}
        wanted = {kind: target for kind, target in targets.items() if not target.is_file()}
        if wanted:
            exact = self._published
            if model != DEFAULT:
                exact = self.cache / f"{model}-{key}-F32.gguf"
                self._options.progress(f"{model}: writing GGUF")
                write_float32_gguf(source, self._published, exact)
            for kind, target in wanted.items():
                self._options.progress(f"{model}: llama.cpp quantises to {kind}")
                if problem := quantise(exact, target, kind):
                    self.missing[f"{model}, llama.cpp {kind}"] = problem
            if exact != self._published:
                exact.unlink()
        return [
            Form(
                model=model,
                weights=kind,
                contender=LLAMA,
                place=target,
                file=target,
                matrices=gguf_matrices(target),
            )
            for kind, target in targets.items()
            if target.is_file()
        ]


def llama_version() -> str:
    """What is pinned in its environment."""
    return (LLAMA.interpreter.parents[1] / ".ready").read_text(encoding="utf-8")


def _q4_0_bytes(source: ModelSource) -> int:
    """What llama.cpp's Q4_0 takes for all matrices: the head in Q6_K, or in Q8_0 where its rows are
    no multiple of 256."""
    shape = source.shape
    head = shape.vocab_size * shape.hidden_size
    weights = sum(size[0] * size[1] for size in shape.tensors().values() if len(size) == 2)
    head_block = (34, 32) if shape.hidden_size % 256 else (210, 256)
    return (weights - head) * 18 // 32 + head * head_block[0] // head_block[1]


def _rounding_code(*, is_mixed: bool) -> str:
    toolchain = _ROOT / "edgelora/toolchain"
    native = native_package()
    places = [toolchain / name for name in ("plain_matrices.py", "native_form.py")]
    if is_mixed:
        places.append(toolchain / "quantisation")
    return code_digest(*places, *(native / name for name in _PACKING))


_PACKING = ("kinds.py", "matrices.py", "packing.py", "rounding.py", "tensor_writer.py")


def native_package() -> Path:
    spec = importlib.util.find_spec("edgelora_native")
    if spec is None or spec.origin is None:
        raise BenchError("the native core is not installed: run `make native`")
    return Path(spec.origin).parent
