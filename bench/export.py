"""`export`: the demo adapters in llama.cpp, beside PEFT.

Each adapter of `demo/` is exported to GGUF and answers the prompts of its own probe file, greedily.
PEFT computes in float32 from the directory. llama.cpp has the same base twice: in float32, where
nothing but the order of sums may differ, and as it was published, in Q4_1, for which it rounds
activations to 8 bits. Logits are those after every token of the prompt; how far the bases are apart
without an adapter stands beside.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.model_files import ModelFiles, find_model_files, quantise
from bench.peers.process import PeerError, PeerProcess
from bench.peers.roster import Contender, contenders
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.toolchain.adapter_export import export_gguf, read_local_adapter

DEMO = Path("demo")
NAMES = ("email", "recipes", "tutor", "home")
_PROMPTS, _QUICK_PROMPTS = 3, 1
_NEW_TOKENS, _QUICK_NEW_TOKENS = 48, 12
_MAX_TOKENS = 512
_EXACT, _PUBLISHED = "F32", "Q4_1"
_MAX_DIFFERENCE = 0.01
"""Of logits in float32; they span about 30."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One engine's work on one prompt."""

    logits: NDArray[np.float32]
    """Shape [tokens of the prompt, vocab_size]."""
    base_logits: NDArray[np.float32]
    """The same without the adapter."""
    token_ids: list[int]


def run(options: BenchOptions) -> BenchResult:
    """Answers every prompt in PEFT and in llama.cpp over both forms of the base."""
    peft, llama = (_contender(name) for name in ("peft", "llama.cpp"))
    files = find_model_files(options)
    if problem := files.missing(peft):
        raise BenchError(problem)
    if _PUBLISHED not in files.ggufs:
        raise BenchError("there is no GGUF of this model: leave out --model and --shape")
    prompts = _prompts(files, _QUICK_PROMPTS if options.quick else _PROMPTS)
    with tempfile.TemporaryDirectory(prefix="edgelora-bench-") as temporary:
        place = Path(temporary)
        ggufs = {_EXACT: place / "float32.gguf", _PUBLISHED: files.ggufs[_PUBLISHED]}
        options.progress("writing the base in float32 with llama.cpp")
        if problem := quantise(ggufs[_PUBLISHED], ggufs[_EXACT], _EXACT):
            raise BenchError(f"llama.cpp wrote no float32: {problem}")
        exported = [place / f"{name}.gguf" for name in NAMES]
        for name, target in zip(NAMES, exported, strict=True):
            export_gguf(read_local_adapter(DEMO / name, files.directory), target)
        work = _Work(place, prompts, options)
        sources = [str(DEMO / name) for name in NAMES]
        expected = work.answers(peft, model_directory=str(files.directory), adapters=sources)
        rows = []
        for kind, gguf in ggufs.items():
            adapters = [str(path) for path in exported]
            found = work.answers(llama, gguf=str(gguf), adapters=adapters, exact=True)
            rows += [_row(kind, name, expected[name], found[name]) for name in NAMES]
    exact = [row for row in rows if row["base"] == _EXACT]
    return BenchResult(
        results={"prompts_each": work.num_prompts, "new_tokens": work.new_tokens, "beside": rows},
        targets=[
            Target.at_least("equal_tokens_float32", 1.0, min(row["equal_tokens"] for row in exact)),
            Target.at_most(
                "logit_difference_float32",
                _MAX_DIFFERENCE,
                max(row["logit_difference"] for row in exact),
            ),
        ],
    )


def _contender(name: str) -> Contender:
    contender = contenders([name])[1]
    if contender.missing is not None:
        raise BenchError(f"{name}: {contender.missing}")
    return contender


def _prompts(files: ModelFiles, count: int) -> dict[str, list[list[int]]]:
    """Adapter -> the tokens of the first prompts of its probe file."""
    tokenizer = Tokenizer.from_file(str(files.directory / "tokenizer.json"))
    prompts = {}
    for name in NAMES:
        lines = (DEMO / name / "probe.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["prompt"] for line in lines[:count]]
        prompts[name] = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return prompts


class _Work:
    """The prompts, given to one engine after another."""

    def __init__(
        self, place: Path, prompts: dict[str, list[list[int]]], options: BenchOptions
    ) -> None:
        self._place = place
        self._prompts = prompts
        self._options = options
        self.new_tokens = _QUICK_NEW_TOKENS if options.quick else _NEW_TOKENS
        self.num_prompts = {name: len(those) for name, those in prompts.items()}

    def answers(self, contender: Contender, **load: Any) -> dict[str, list[_Answer]]:
        """Loads an engine and has it answer; adapter -> its answers."""
        self._options.progress(f"{contender.peer} answers")
        threads = self._options.num_threads
        with contender.start(self._place) as process:
            try:
                process.ask("load", threads=threads, max_streams=1, max_tokens=_MAX_TOKENS, **load)
                return {
                    name: list(self._answer(process, name, index))
                    for index, name in enumerate(NAMES)
                }
            except PeerError as error:
                raise BenchError(f"{contender.name}: {error}") from error

    def _answer(self, process: PeerProcess, name: str, adapter: int) -> Iterator[_Answer]:
        target = self._place / "logits.npy"
        for prompt in self._prompts[name]:
            logits = []
            for one in (adapter, None):
                process.ask("logits", prompt=prompt, adapter=one, target=str(target))
                logits.append(np.load(target))
            done = process.ask(
                "decode", prompts=[prompt], adapters=[adapter], new_tokens=self.new_tokens
            )
            yield _Answer(logits[0], logits[1], done["token_ids"][0])


def _row(base: str, name: str, expected: list[_Answer], found: list[_Answer]) -> dict[str, Any]:
    pairs = list(zip(expected, found, strict=True))
    equal = [
        a == b for one, other in pairs for a, b in zip(one.token_ids, other.token_ids, strict=True)
    ]
    worst = max(_difference(one.logits, other.logits) for one, other in pairs)
    worst_base = max(_difference(one.base_logits, other.base_logits) for one, other in pairs)
    spans = [float(np.ptp(one.logits, axis=1).mean()) for one in expected]
    return {
        "base": base,
        "adapter": name,
        "equal_tokens": round(sum(equal) / len(equal), 4),
        "logit_difference": round(worst, 6),
        "without_adapter": round(worst_base, 6),
        "logit_span": round(sum(spans) / len(spans), 1),
    }


def _difference(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())
