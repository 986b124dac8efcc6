"""Engines side by side on one machine: loaded at the same time, computing one after another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.adapters import ALL_LINEAR, QUERY_VALUE, write_random_adapter
from bench.engine_cases import (
    NUM_ADAPTERS,
    NUM_STREAMS,
    PREFILL_TOKENS,
    PROMPT_TOKENS,
    RANK,
    SMALL_RANK,
    Case,
)
from bench.gguf_adapters import write_gguf_adapter
from bench.measure import median
from bench.model_files import ModelFiles
from bench.peers.process import PeerError
from bench.peers.roster import OURS, Contender, Loaded

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

    def try_adapters(self) -> None:
        """Finds out, engine by engine, whether an adapter changes what is generated.

        Streams run alone and greedily, so an engine that applies adapters changes most of them.
        """
        prompts = self._prompts(PROMPT_TOKENS)
        for one in list(self.loaded):
            self.progress(f"{one.contender.name}: are adapters applied?")
            changed = 0
            for stream, prompt in enumerate(prompts):
                plain = self._tokens(one, prompt, None)
                adapted = self._tokens(one, prompt, stream % NUM_ADAPTERS)
                if plain is None or adapted is None:
                    break
                changed += plain != adapted
            else:
                one.adapter_applied = 2 * changed >= len(prompts)

    def measure(self, case: Case, rounds: int) -> dict[str, list[float]]:
        """Returns each engine's rounds in tokens a second, A B C A B C."""
        self.progress(case.name)
        runs: dict[str, list[float]] = {}
        for number in range(-1, rounds):
            for one in list(self.loaded):
                if case.only_ours and one.contender.name != OURS:
                    continue
                # The first round warms up.
                speed = self._speed(one, case, self.new_tokens if number >= 0 else _WARM_TOKENS)
                if speed is not None and number >= 0:
                    runs.setdefault(one.contender.name, []).append(speed)
        return runs

    def _speed(self, one: Loaded, case: Case, new_tokens: int) -> float | None:
        streams = len(case.adapters)
        if case.is_prefill:
            (prompt,) = self._prompts(PREFILL_TOKENS, 1)
            done = self._ask(one, "prefill", prompt=prompt, adapter=case.adapters[0])
            return None if done is None else PREFILL_TOKENS / float(done["seconds"])
        done = self._ask(
            one,
            "decode",
            prompts=self._prompts(PROMPT_TOKENS, streams),
            adapters=list(case.adapters),
            new_tokens=new_tokens,
        )
        return None if done is None else streams * new_tokens / float(done["decode_s"])

    def _tokens(self, one: Loaded, prompt: list[int], adapter: int | None) -> list[int] | None:
        done = self._ask(
            one, "decode", prompts=[prompt], adapters=[adapter], new_tokens=_TRIED_TOKENS
        )
        return None if done is None else list(done["token_ids"][0])

    def _ask(self, one: Loaded, command: str, **arguments: Any) -> dict[str, Any] | None:
        """Asks an engine; one that fails takes no further part."""
        try:
            return one.process.ask(command, **arguments)
        except PeerError as error:
            self.loaded.remove(one)
            self.skipped[one.contender.name] = str(error)
            self.progress(f"{one.contender.name} is out: {error}")
            one.process.close()
            return None

    def _prompts(self, length: int, count: int = NUM_STREAMS) -> list[list[int]]:
        draw = np.random.default_rng([self.seed, length])
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
                ours = contender.name == OURS
                try:
                    facts = process.ask(
                        "load",
                        threads=num_threads,
                        max_streams=NUM_STREAMS,
                        max_tokens=max(PREFILL_TOKENS, PROMPT_TOKENS + new_tokens) + 1,
                        adapters=adapters["ours" if ours else contender.adapter_files],
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
            place / f"adapter-{index}", model, rank=RANK, modules=ALL_LINEAR, seed=seed + index
        )
        for index in range(NUM_ADAPTERS)
    ]
    small = [
        write_random_adapter(
            place / f"small-{index}", model, rank=SMALL_RANK, modules=QUERY_VALUE, seed=seed + index
        )
        for index in range(NUM_ADAPTERS)
    ]
    converted = [
        write_gguf_adapter(
            path,
            path.with_suffix(".gguf"),
            num_heads=files.num_heads,
            num_kv_heads=files.num_kv_heads,
        )
        for path in written
    ]
    return {
        "ours": [str(path) for path in written + small],
        "peft": [str(path) for path in written],
        "safetensors": [str(path / "adapter_model.safetensors") for path in written],
        "gguf": [str(path) for path in converted],
    }


def medians(runs: dict[str, list[float]]) -> dict[str, float]:
    """Median of each engine's rounds."""
    return {name: round(median(speeds), 1) for name, speeds in runs.items()}
