"""Engines side by side on one machine: loaded at the same time, computing one after another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.adapters import ALL_LINEAR, QUERY_VALUE, STRONG, write_random_adapter
from bench.engine_cases import (
    NUM_ADAPTERS,
    NUM_STREAMS,
    PREFILL_TOKENS,
    PROMPT_TOKENS,
    RANK,
    SMALL_RANK,
    Case,
)
from bench.measure import median
from bench.model_files import ModelFiles
from bench.peers.process import PeerError
from bench.peers.roster import OURS, Contender, Loaded
from edgelora.toolchain.adapter_export import export_gguf, read_local_adapter

_TRIED_ADAPTERS = 4
_TRIED_TOKENS = 8
_WARM_TOKENS = 2


@dataclass(slots=True)
class Contest:
    """The engines that were loaded, and why others were not."""

    seed: int
    new_tokens: int
    """Decoded after each stream's first token."""
    vocab_size: int
    progress: Callable[[str], None]
    loaded: list[Loaded] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Name -> reason."""
    num_rounds: int = 0
    """Measured so far, of all cases."""

    def try_adapters(self) -> None:
        """Finds out, engine by engine, whether an adapter changes what is generated.

        Streams run alone and greedily, the base twice: it must say the same again, so that what
        changes is the adapter's doing.
        """
        for one in list(self.loaded):
            self.progress(f"{one.contender.name}: are adapters applied?")
            try:
                one.adapter_applied = self._does_apply_adapters(one)
            except PeerError as error:
                self._drop(one, error)

    def measure(
        self, case: Case, rounds: int, *, with_prompts: bool = False
    ) -> dict[str, list[float]]:
        """Returns each engine's rounds in tokens a second, A B C A B C.

        `with_prompts`: all new tokens over the whole time, instead of those after the first tokens
        over the time from there.
        """
        self.progress(case.name)
        runs: dict[str, list[float]] = {}
        for number in range(-1, rounds):
            self.num_rounds += 1
            for one in list(self.loaded):
                if case.only_ours and one.contender.name != OURS:
                    continue
                try:
                    # The first round warms up.
                    tokens = self.new_tokens if number >= 0 else _WARM_TOKENS
                    speed = self._speed(one, case, tokens, with_prompts)
                except PeerError as error:
                    self._drop(one, error)
                    continue
                if number >= 0:
                    runs.setdefault(one.contender.name, []).append(speed)
        return runs

    def _does_apply_adapters(self, one: Loaded) -> bool:
        changed = unstable = 0
        for index, prompt in enumerate(self._prompts(PROMPT_TOKENS, _TRIED_ADAPTERS)):
            plain, adapted, again = (
                one.process.ask(
                    "decode", prompts=[prompt], adapters=[adapter], new_tokens=_TRIED_TOKENS
                )["token_ids"]
                for adapter in (None, index, None)
            )
            changed += plain != adapted
            unstable += plain != again
        return changed > unstable

    def _speed(self, one: Loaded, case: Case, new_tokens: int, with_prompts: bool) -> float:
        streams = len(case.adapters)
        if case.is_prefill:
            (prompt,) = self._prompts(PREFILL_TOKENS, 1)
            done = one.process.ask("prefill", prompt=prompt, adapter=case.adapters[0])
            return PREFILL_TOKENS / float(done["seconds"])
        done = one.process.ask(
            "decode",
            prompts=self._prompts(PROMPT_TOKENS, streams),
            adapters=list(case.adapters),
            new_tokens=new_tokens,
        )
        if with_prompts:
            return streams * (new_tokens + 1) / float(done["total_s"])
        return streams * new_tokens / float(done["decode_s"])

    def _drop(self, one: Loaded, error: PeerError) -> None:
        """An engine that failed takes no further part."""
        self.loaded.remove(one)
        self.skipped[one.contender.name] = str(error)
        self.progress(f"{one.contender.name} is out: {error}")
        one.process.close()

    def _prompts(self, length: int, count: int) -> list[list[int]]:
        """The same for every engine of a round, new ones in the next: no prefix cache helps."""
        draw = np.random.default_rng([self.seed, self.num_rounds])
        prompts: list[list[int]] = draw.integers(100, self.vocab_size, (count, length)).tolist()
        return prompts


@contextmanager
def contest(
    candidates: Sequence[Contender],
    files: ModelFiles,
    *,
    seed: int,
    num_threads: int,
    new_tokens: int,
    progress: Callable[[str], None],
) -> Iterator[Contest]:
    """Yields the contest with every engine that could be started and loaded."""
    model = files.model
    opened = Contest(
        seed=seed, new_tokens=new_tokens, vocab_size=model.vocab_size, progress=progress
    )
    with ExitStack() as cleanup:
        place = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="edgelora-bench-")))
        progress("writing adapters")
        adapters = _write_adapters(place, files, seed)
        for contender in candidates:
            reason = contender.missing or files.missing(contender)
            if reason is None:
                progress(f"loading {contender.name}")
                process = cleanup.enter_context(contender.start(place))
                try:
                    facts = process.ask(
                        "load",
                        threads=num_threads,
                        max_streams=NUM_STREAMS,
                        max_tokens=max(PREFILL_TOKENS, PROMPT_TOKENS + new_tokens) + 1,
                        adapters=adapters[contender.adapter_files],
                        **files.arguments(contender),
                    )
                except PeerError as error:
                    reason = str(error)
                    process.close()
                else:
                    opened.loaded.append(Loaded(contender, process, facts))
            if reason is not None:
                opened.skipped[contender.name] = reason
                progress(f"without {contender.name}: {reason}")
        yield opened


def _write_adapters(place: Path, files: ModelFiles, seed: int) -> dict[str, list[str]]:
    """Writes the same adapters in every form: form -> paths in order."""
    model = files.model
    written = [
        write_random_adapter(
            place / f"adapter-{index}",
            model,
            rank=RANK,
            modules=ALL_LINEAR,
            seed=seed + index,
            b_std=STRONG,
        )
        for index in range(NUM_ADAPTERS)
    ]
    small = [
        write_random_adapter(
            place / f"small-{index}", model, rank=SMALL_RANK, modules=QUERY_VALUE, seed=seed + index
        )
        for index in range(NUM_ADAPTERS)
    ]
    converted = [path.with_suffix(".gguf") for path in written]
    for path, target in zip(written, converted, strict=True):
        # As they were written: in half precision.
        export_gguf(read_local_adapter(path, files.directory), target, half=True)
    return {
        "ours": [str(path) for path in written + small],
        "peft": [str(path) for path in written],
        "safetensors": [str(path / "adapter_model.safetensors") for path in written],
        "gguf": [str(path) for path in converted],
    }


def medians(runs: dict[str, list[float]]) -> dict[str, float]:
    """Median of each engine's rounds."""
    return {name: round(median(speeds), 1) for name, speeds in runs.items()}
