"""Perplexity of forms of a model on a text, a piece at a time; each piece is computed once.

The text is cut into windows without overlap, and the second half of each is scored, every token
given all of its window before it, as llama.cpp's own perplexity tool does it. A figure is the same
on a busy machine, so what was found is kept for the next run, under a name of all it depends on.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import describe_machine
from bench.peers.process import PeerError, PeerProcess
from bench.peers.roster import NATIVE
from bench.quant_cache import code_digest, fingerprint
from bench.quant_models import FLOAT32, LLAMA, Form, llama_version, native_package
from bench.result import BenchError, BenchOptions
from services.chassis.base_model import file_digest

Windows = Sequence[Sequence[int]]
WINDOW_TOKENS = 512
PIECE_WINDOWS = 60
"""The first piece is the 60 windows that others' figures are of."""
_PEERS = Path(__file__).parent / "peers"
_MODULES = {NATIVE.name: "native.py", LLAMA.name: "llama_cpp.py", FLOAT32.name: "peft.py"}


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Of some text."""

    nll: float
    """Summed -log p, in nats."""
    tokens: int

    @property
    def perplexity(self) -> float:
        """Of a token."""
        return math.exp(self.nll / self.tokens)

    def __add__(self, other: Likelihood) -> Likelihood:
        """Of both texts."""
        return Likelihood(self.nll + other.nll, self.tokens + other.tokens)


class Examiner:
    """Runs what the cache does not know."""

    def __init__(self, cache: Path, options: BenchOptions, logs: Path) -> None:
        """`cache`: a directory. `logs`: takes what engines say."""
        self._cache = cache / "perplexity"
        self._cache.mkdir(exist_ok=True)
        self._options = options
        self._logs = logs
        machine = describe_machine()
        self._machine = [machine["cpu"], machine["isa_flags"]]

    def examine(self, form: Form, pieces: Sequence[Windows]) -> list[Likelihood]:
        """Returns the likelihood of each piece. Raises BenchError when the engine fails."""
        engine = self._engine(form)
        digest = file_digest(form.file)
        files = [
            self._cache / f"{fingerprint(digest, engine, [list(one) for one in piece])}.json"
            for piece in pieces
        ]
        wanted = [number for number, file in enumerate(files) if not file.is_file()]
        if wanted:
            with form.contender.start(self._logs) as process:
                try:
                    self._load(process, form, pieces)
                    for number in wanted:
                        self._options.progress(
                            f"{form.model}, {form.weights}: perplexity, "
                            f"piece {number + 1} of {len(pieces)}"
                        )
                        self._compute(process, pieces[number], files[number])
                except PeerError as error:
                    raise BenchError(f"{form.model}, {form.weights}: {error}") from error
        return [Likelihood(**json.loads(file.read_text(encoding="utf-8"))) for file in files]

    def _load(self, process: PeerProcess, form: Form, pieces: Sequence[Windows]) -> None:
        longest = max(len(window) for piece in pieces for window in piece)
        process.ask(
            "load",
            threads=self._options.num_threads,
            max_streams=form.contender.windows_at_once,
            max_tokens=longest + 1,
            adapters=[],
            **form.arguments,
        )

    def _compute(self, process: PeerProcess, piece: Windows, file: Path) -> None:
        found = process.ask("perplexity", windows=piece, first=len(piece[0]) // 2)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.replace(file)

    def _engine(self, form: Form) -> list[object]:
        """What the engine is, as far as it changes a figure."""
        own = code_digest(_PEERS / _MODULES[form.contender.name])
        if form.contender is NATIVE:
            # The same bits on every machine, with any number of threads.
            return [own, code_digest(native_package())]
        version = (
            llama_version()
            if form.contender is LLAMA
            else [importlib.metadata.version(name) for name in ("torch", "transformers")]
        )
        return [own, version, self._machine, self._options.num_threads]


def cut(token_ids: Sequence[int], *, window_tokens: int, max_windows: int) -> list[Windows]:
    """Windows of a text in pieces of `PIECE_WINDOWS`; what is left over at its end is dropped."""
    count = min(max_windows, len(token_ids) // window_tokens)
    windows = [token_ids[at * window_tokens : (at + 1) * window_tokens] for at in range(count)]
    return [windows[at : at + PIECE_WINDOWS] for at in range(0, count, PIECE_WINDOWS)]


def total(likelihoods: Sequence[Likelihood]) -> Likelihood:
    """Of all pieces together."""
    return sum(likelihoods, Likelihood(0.0, 0))
