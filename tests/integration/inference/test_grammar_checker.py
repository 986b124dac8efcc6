"""The process that compiles a grammar first: a hostile one ends there, whatever it does."""

import asyncio
import json

import psutil
import pytest

from edgelora.errors import QueueFullError, ServiceUnavailableError
from edgelora.v1.generation_pb2 import Constraint
from services.inference.constraints.checker import GrammarChecker
from services.inference.constraints.grammar import constraint_grammar
from services.inference.constraints.verdict import Verdict
from services.inference.constraints.vocabulary import OutputVocabulary
from services.inference.tokenizer import TextTokenizer
from tests.support.small_tokenizer import EOS_TOKEN_ID, small_tokenizer

pytestmark = pytest.mark.integration


def vocabulary():
    tokenizer = TextTokenizer(small_tokenizer().to_str())
    return OutputVocabulary.of(tokenizer, 400, frozenset({EOS_TOKEN_ID})).to_bytes()


@pytest.fixture
async def checker():
    # Time on the clock is not what is tested, and this machine may be busy.
    made = GrammarChecker(vocabulary, wall_s=30.0)
    yield made
    await made.close()


def schema(document):
    return constraint_grammar(Constraint(json_schema=json.dumps(document))).text


def regex(pattern):
    return constraint_grammar(Constraint(regex=pattern)).text


def lark(text):
    return constraint_grammar(Constraint(lark=text)).text


GOOD = schema({"type": "object", "properties": {"a": {"type": "integer"}}})
SLOW = schema({"type": "integer", "multipleOf": 999983})


def doubled(depth):
    """Each level stands twice in the next."""
    levels = {"l0": {"type": "object", "properties": {"a": {"type": "string"}}}}
    for level in range(1, depth):
        below = {"$ref": f"#/$defs/l{level - 1}"}
        levels[f"l{level}"] = {"allOf": [below, {"anyOf": [below, {"type": "object"}]}]}
    return {"$defs": levels, "$ref": f"#/$defs/l{depth - 1}"}


CASES = {
    "good": (GOOD, {Verdict.FITS}),
    "any pattern": (regex("(a|b)*c{3}"), {Verdict.FITS}),
    "lark": (lark('start: "a" start | "b"'), {Verdict.FITS}),
    "long strings": (schema({"type": "string", "minLength": 100_000}), {Verdict.FITS}),
    "long lists": (schema({"type": "array", "maxItems": 100_000}), {Verdict.FITS}),
    "bracket X05": (regex("["), {Verdict.BAD_PATTERN}),
    "parenthesis X05": (regex("("), {Verdict.BAD_PATTERN}),
    "look-around": (regex("(?=a)b"), {Verdict.BAD_PATTERN}),
    "back-reference": (regex(r"(a)\1"), {Verdict.BAD_PATTERN}),
    "pattern of a schema": (schema({"pattern": "("}), {Verdict.BAD_PATTERN}),
    "no grammar": (lark("start: "), {Verdict.INVALID, Verdict.FITS}),
    "unknown rule": (lark("start: b"), {Verdict.INVALID}),
    "no JSON": ("{", {Verdict.INVALID}),
    "NUL X06": (json.dumps({"grammars": [{"lark_grammar": "start: /\0abc/"}]}), set(Verdict)),
    "impossible": (
        schema({"minLength": 5, "maxLength": 2, "type": "string"}),
        {Verdict.UNSATISFIABLE},
    ),
    "reference to itself": (schema({"$ref": "#"}), {Verdict.UNSATISFIABLE}),
    "references in a ring": (
        schema(
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
        ),
        {Verdict.UNSATISFIABLE},
    ),
    "overlapping oneOf": (
        schema({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 3}]}),
        {Verdict.OVERLAPPING},
    ),
    "a large multiple": (SLOW, {Verdict.TOO_COMPLEX}),
    "doubled 40 times": (schema(doubled(20)), {Verdict.TOO_COMPLEX, Verdict.FITS}),
    "many combinations": (
        schema(
            {
                "allOf": [
                    {
                        "anyOf": [{"properties": {f"k{i}{j}": {}}} for j in range(4)],
                        "type": "object",
                    }
                    for i in range(20)
                ]
            }
        ),
        {Verdict.TOO_COMPLEX},
    ),
    "a large enum": (schema({"enum": [f"v{i}" for i in range(4096)]}), {Verdict.FITS}),
    "repeats of repeats": (regex("((a{1,1000}){1,1000}){1,1000}"), {Verdict.FITS}),
    "catastrophic": (regex("(x+x+)+y"), {Verdict.FITS}),
    "deep": (
        schema({"type": "array", "items": {"type": "array", "items": {"const": [[[1]]]}}}),
        {Verdict.FITS},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_is_found(checker, name):
    grammar, expected = CASES[name]
    assert await checker.check(grammar, "tenant") in expected


async def test_one_that_is_ended_takes_nobody_along(checker):
    assert await checker.check(GOOD, "tenant") is Verdict.FITS
    (process,) = psutil.Process().children()
    for _ in range(3):
        assert await checker.check(SLOW, "tenant") is Verdict.TOO_COMPLEX
        assert await checker.check(GOOD, "tenant") is Verdict.FITS
    assert psutil.Process().children() == [process]
    assert process.children() == []


async def test_one_that_wants_memory_is_ended():
    # Time enough: it is the memory that it runs out of.
    checker = GrammarChecker(vocabulary, cpu_s=30.0, wall_s=60.0, memory_bytes=16 << 20)
    assert await checker.check(SLOW, "tenant") is Verdict.TOO_COMPLEX
    assert await checker.check(GOOD, "tenant") is Verdict.FITS
    await checker.close()


async def test_one_that_sleeps_longer_than_it_computes_is_told_apart():
    checker = GrammarChecker(vocabulary, cpu_s=30.0, wall_s=0.02, memory_bytes=1 << 30)
    assert await checker.check(SLOW, "tenant") is Verdict.TIMED_OUT
    await checker.close()


async def test_one_that_is_killed_from_outside_says_nothing_of_its_grammar():
    checker = GrammarChecker(vocabulary, cpu_s=100.0, wall_s=100.0)
    await checker.check(GOOD, "tenant")
    (process,) = psutil.Process().children()
    checking = asyncio.create_task(checker.check(SLOW, "tenant"))
    while not (children := process.children()):  # noqa: ASYNC110 - nobody tells of another process
        await asyncio.sleep(0)
    children[0].kill()
    assert await checking is Verdict.TIMED_OUT
    await checker.close()


async def test_a_process_that_is_gone_is_started_again(checker):
    await checker.check(GOOD, "tenant")
    (process,) = psutil.Process().children()
    process.kill()
    with pytest.raises(ServiceUnavailableError):
        await checker.check(GOOD, "tenant")
    assert await checker.check(GOOD, "tenant") is Verdict.FITS


async def test_a_request_that_is_cancelled_leaves_no_answer_to_the_next(checker):
    await checker.check(GOOD, "tenant")
    task = asyncio.create_task(checker.check(SLOW, "tenant"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await checker.check(GOOD, "tenant") is Verdict.FITS


async def test_few_may_wait_and_fewer_of_one_tenant(checker):
    first = [asyncio.create_task(checker.check(SLOW, "a")) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError) as caught:
        await checker.check(GOOD, "a")
    assert caught.value.retry_after_s == 1.0
    others = [asyncio.create_task(checker.check(GOOD, f"b{each // 8}")) for each in range(24)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError):
        await checker.check(GOOD, "c")
    assert set(await asyncio.gather(*first)) == {Verdict.TOO_COMPLEX}
    assert set(await asyncio.gather(*others)) == {Verdict.FITS}
    assert await checker.check(GOOD, "a") is Verdict.FITS


async def test_a_tenant_with_many_is_served_in_turn_with_others(checker):
    ended = []

    async def check(grammar, tenant_id):
        await checker.check(grammar, tenant_id)
        ended.append(tenant_id)

    async with asyncio.TaskGroup() as group:
        for tenant_id in "aaaaaabbc":
            group.create_task(check(GOOD, tenant_id))
    assert "".join(ended) == "abcabaaaa"
    assert checker._turns == {}


async def test_it_ends_with_the_worker(checker):
    await checker.check(GOOD, "tenant")
    (process,) = psutil.Process().children()
    await checker.close()
    assert not process.is_running()
