"""`constraints`: what bounded output costs, and what hostile schemas do.

The engine with the native core in this process. Eight streams decode with and without a JSON schema
each, in turns; a step is the time between two choices of eight tokens, masks included. Then the
first token of one request: free, with a schema that was seen before, with a new one (which another
process checks first). Last, hostile schemas one after the other, no two alike, while four other
streams run: how long until each is refused, and the gaps between the others' tokens beside those
without them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import median, percentile
from bench.result import BenchError, BenchOptions, BenchResult, Target
from edgelora.errors import EdgeLoraError, InvalidRequestError
from edgelora.v1.generation_pb2 import Constraint, GenerationInput, GenerationOptions
from services.chassis.base_model import BaseModel
from services.chassis.generation_limits import check_options
from services.inference.backends.base import BackendLimits
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.sampling import ChosenToken, RowSampling
from services.inference.constraints.compiler import ConstraintCompiler
from services.inference.engine.adapter_slots import Eviction
from services.inference.engine.config import EngineConfig
from services.inference.engine.engine import Engine
from services.inference.engine.events import TextDelta
from services.inference.engine.fetched_adapter import FinishedLoad
from services.inference.engine.iteration_scheduler import StepLimits
from services.inference.engine.sequence import SamplingParams, StopConditions
from services.inference.model_files import canary_token_ids, read_eos_token_ids
from services.inference.tokenizer import TextTokenizer

_NUM_STREAMS, _NUM_OTHERS = 8, 4
_PROMPT = "Write a list of people with their ages, towns and hobbies as JSON."
_TEMPERATURES = {"greedy": 0.0, "temperature 0.8": 0.8}
_MAX_STEP_GROWTH = 1.05
_MAX_REFUSAL_MS = 200.0
_TENANT = "bench"
_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "town": {"type": "string", "maxLength": 30},
        "is_member": {"type": "boolean"},
        "hobbies": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
    "required": ["name", "age", "town", "is_member", "hobbies"],
    "additionalProperties": False,
}
_PEOPLE = {"type": "array", "items": _PERSON, "minItems": 10_000}
"""Never complete, so that every stream goes on to its last token."""


def run(options: BenchOptions) -> BenchResult:
    """Measures steps, first tokens and refusals."""
    return asyncio.run(_run(options))


async def _run(options: BenchOptions) -> BenchResult:
    rounds, num_tokens, num_firsts, num_hostile = (
        (2, 64, 6, 16) if options.quick else (5, 192, 24, 150)
    )
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        raise BenchError(f"the native back end can not run: {obstacle}")
    node = _Node(options)
    await node.engine.start(node)
    try:
        steps_s: dict[str, dict[str, list[float]]] = {name: {} for name in _TEMPERATURES}
        for number in range(rounds):
            for name, temperature in _TEMPERATURES.items():
                for case, schema in (("free", None), ("constrained", _PEOPLE)):
                    options.progress(f"eight streams, round {number + 1}: {name}, {case}")
                    gaps_s = await node.run_streams(_NUM_STREAMS, schema, num_tokens, temperature)
                    steps_s[name].setdefault(case, []).append(median(gaps_s))
        firsts_s = await node.first_tokens(num_firsts, options)
        options.progress("other streams alone")
        alone_s = await node.run_streams(_NUM_OTHERS, None, num_tokens)
        options.progress("other streams beside hostile schemas")
        refusals_s, beside_s = await node.run_beside(num_hostile)
    finally:
        await node.close()
    growth = {
        name: round(median(cases["constrained"]) / median(cases["free"]), 4)
        for name, cases in steps_s.items()
    }
    refusal_ms = _ms(percentile(refusals_s, 99))
    return BenchResult(
        results={
            "steps": [
                {
                    "sampling": name,
                    **{f"{case}_ms": _ms(median(values)) for case, values in cases.items()},
                    "growth": growth[name],
                }
                for name, cases in steps_s.items()
            ],
            "step_rounds_ms": {
                f"{name}, {case}": [_ms(value) for value in values]
                for name, cases in steps_s.items()
                for case, values in cases.items()
            },
            "first_token_ms": {case: _ms(median(values)) for case, values in firsts_s.items()},
            "refusal_ms": {
                "num": len(refusals_s),
                **{f"p{rank}": _ms(percentile(refusals_s, rank)) for rank in (50, 99)},
                "max": _ms(max(refusals_s)),
            },
            "others_gap_ms": {
                case: {f"p{rank}": _ms(percentile(gaps, rank)) for rank in (50, 90, 99)}
                for case, gaps in (("alone", alone_s), ("beside hostile", beside_s))
            },
        },
        targets=[
            *(
                Target.at_most(f"step_growth, {name}", _MAX_STEP_GROWTH, value)
                for name, value in growth.items()
            ),
            Target.at_most("refusal_p99_ms", _MAX_REFUSAL_MS, refusal_ms),
        ],
    )


class _TimedBackend(NativeBackend):
    """Notes when the tokens of steps with enough rows are chosen."""

    num_rows = 1

    def __init__(self, *, num_threads: int) -> None:
        super().__init__(num_threads=num_threads)
        self.times_s: list[float] = []

    def sample(
        self, logits: NDArray[np.float32], rows: Sequence[RowSampling]
    ) -> list[ChosenToken | None]:
        chosen = super().sample(logits, rows)
        if len(rows) >= self.num_rows:
            self.times_s.append(time.perf_counter())
        return chosen


class _Node:
    """Engine and compiler as a worker has them. An EngineObserver that is never asked."""

    def __init__(self, options: BenchOptions) -> None:
        directory = options.model_directory
        model, tokenizer = BaseModel.load(directory), TextTokenizer.load(directory)
        eos_token_ids = read_eos_token_ids(directory, tokenizer)
        self._backend = _TimedBackend(num_threads=options.num_threads)
        self.engine = _make_engine(self._backend, directory, tokenizer, eos_token_ids)
        self._compiler = ConstraintCompiler(tokenizer, model.vocab_size, eos_token_ids)
        self._prompt = tokenizer.encode(_PROMPT)
        self._seed = options.seed

    async def run_streams(
        self,
        count: int,
        schema: dict[str, Any] | None,
        num_tokens: int,
        temperature: float = 0.8,
    ) -> list[float]:
        """The times between the steps of so many streams."""
        self._backend.num_rows = count
        self._backend.times_s.clear()
        await asyncio.gather(
            *(
                self._ask(schema, num_tokens=num_tokens, seed=each, temperature=temperature)
                for each in range(count)
            )
        )
        return [later - earlier for earlier, later in pairwise(self._backend.times_s)]

    async def first_tokens(self, count: int, options: BenchOptions) -> dict[str, list[float]]:
        """Seconds to the first token of single requests, the cases in turn."""
        taken_s: dict[str, list[float]] = {"free": [], "known schema": [], "new schema": []}
        await self._ask(_PERSON, num_tokens=1)
        for number in range(count):
            options.progress(f"first tokens, {number + 1} of {count}")
            new = {**_PERSON, "minProperties": 0, "$defs": {f"unused{number}": {"const": number}}}
            for case, schema in (("free", None), ("known schema", _PERSON), ("new schema", new)):
                taken_s[case].append(await self._ask(schema, num_tokens=1))
        return taken_s

    async def run_beside(self, count: int) -> tuple[list[float], list[float]]:
        """Seconds until each hostile schema was refused, and the gaps of the others meanwhile."""
        self._backend.num_rows = _NUM_OTHERS
        self._backend.times_s.clear()
        is_over = asyncio.Event()
        others = [asyncio.create_task(self._go_on(is_over, each)) for each in range(_NUM_OTHERS)]
        refusals_s = []
        for schema in islice(_hostile_schemas(), count):
            begin_s = time.perf_counter()
            with suppress(InvalidRequestError):
                await self._compile(schema)
                raise BenchError("a hostile schema was not refused")
            refusals_s.append(time.perf_counter() - begin_s)
        is_over.set()
        await asyncio.gather(*others)
        times_s = self._backend.times_s
        return refusals_s, [later - earlier for earlier, later in pairwise(times_s)]

    async def close(self) -> None:
        await self._compiler.close()
        await self.engine.stop()

    async def _go_on(self, is_over: asyncio.Event, seed: int) -> None:
        while not is_over.is_set():
            await self._ask(None, num_tokens=128, seed=seed)

    async def _ask(
        self,
        schema: dict[str, Any] | None,
        *,
        num_tokens: int,
        seed: int = 0,
        temperature: float = 0.8,
    ) -> float:
        """Runs a request to its end; returns the seconds to its first token."""
        begin_s = time.perf_counter()
        constraint = None if schema is None else await self._compile(json.dumps(schema))
        stream = self.engine.submit(
            list(self._prompt),
            sampling=SamplingParams(temperature=temperature, seed=self._seed + seed),
            stop=StopConditions(max_tokens=num_tokens, ignore_eos=True),
            constraint=constraint,
        )
        first_s = 0.0
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    first_s = first_s or time.perf_counter() - begin_s
        finally:
            stream.close()
        return first_s

    async def _compile(self, schema: str) -> Any:
        options = GenerationOptions(constraint=Constraint(json_schema=schema))
        check_options(options)
        return await self._compiler.compile(options, GenerationInput(), _TENANT)

    # Of an EngineObserver.

    def adapter_wanted(self, digest: str, ticket: object) -> None: ...

    def adapter_refused(self, digest: str, error: EdgeLoraError) -> None: ...

    def residency_changed(
        self, loads: Sequence[FinishedLoad], evictions: Sequence[Eviction]
    ) -> None: ...

    def engine_died(self) -> None: ...


def _make_engine(
    backend: NativeBackend,
    directory: Path,
    tokenizer: TextTokenizer,
    eos_token_ids: frozenset[int],
) -> Engine:
    return Engine(
        backend,
        EngineConfig(
            model_directory=directory,
            limits=BackendLimits(num_kv_blocks=320, block_size=16, max_loras=1, max_lora_rank=1),
            step=StepLimits(max_num_seqs=16, max_num_batched_tokens=512),
            token_bytes=tokenizer.token_bytes,
            eos_token_ids=eos_token_ids,
            canary_token_ids=canary_token_ids(tokenizer),
        ),
    )


def _hostile_schemas() -> Iterator[str]:
    """Schemas that are refused, no two alike: half of them only by the process that compiles."""
    for number in cycle(range(1, 10**6)):
        multiple = {"type": "integer", "multipleOf": 999_983 - 2 * number}
        choices: list[dict[str, Any]] = [
            {"anyOf": [{"properties": {f"k{number}_{i}_{j}": {}}} for j in range(4)]}
            for i in range(20)
        ]
        yield json.dumps(multiple)
        yield json.dumps({"type": "object", "allOf": choices})
        yield json.dumps({"type": "string", "pattern": "(" * number})
        yield json.dumps({"type": "string", "minLength": 10**9 + number})
        yield '{"items":' * (100 + number) + "{}" + "}" * (100 + number)
        yield json.dumps({"enum": [f"{number} {i}" for i in range(5000)]})
        yield json.dumps({"$defs": {"a": {"$ref": "#/$defs/a"}, str(number): {}}, "$ref": "#"})
        yield json.dumps({"type": "string", "pattern": f"a{{{number + 10**6}}}"})


def _ms(seconds: float | None) -> float:
    return round((seconds or 0.0) * 1000, 3)
