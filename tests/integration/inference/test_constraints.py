"""Constraints and tools on the real model: what comes out satisfies them, and hostile ones hurt
nobody (X05, X06, T18)."""

import asyncio
import json
import re

import grpc
import jsonschema
import psutil
import pytest

from edgelora.errors import InvalidRequestError, ServiceUnavailableError, from_rpc_error
from edgelora.v1.generation_pb2 import (
    FINISH_REASON_LENGTH,
    FINISH_REASON_STOP,
    Constraint,
    Tool,
    ToolChoice,
    ToolUse,
)
from services.gateway.tool_calls import ToolCallReader
from services.inference.backends.native_backend import NativeBackend
from tests.support.prepared_model import prepared_model
from tests.support.worker_bench import worker_bench

pytestmark = pytest.mark.integration

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "format": "email", "maxLength": 60},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS = {
    "person": PERSON,
    "enum": {"enum": ["red", "green", 3, None, {"a": [1]}]},
    "const": {"const": {"fixed": "Zürich \U0001f917"}},
    "number": {"type": "number", "minimum": -1, "maximum": 1, "multipleOf": 0.25},
    "multiple": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    "date": {"type": "string", "format": "date"},
    "nullable": {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "maxLength": 9}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "union": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "on"}, "level": {"type": "integer"}},
                "required": ["kind", "level"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "off"}},
                "required": ["kind"],
                "additionalProperties": False,
            },
        ]
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "boolean"}, {"enum": ["x", "y"]}],
        "items": False,
        "minItems": 2,
    },
    "tree": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "v": {"type": "integer", "minimum": 0, "maximum": 9},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["v", "next"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
    "map": {
        "type": "object",
        "patternProperties": {"^[a-z]{1,5}$": {"type": "integer"}},
        "additionalProperties": False,
        "maxProperties": 3,
    },
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            {"properties": {"b": {"enum": [1, 2]}}, "required": ["b"]},
        ],
        "properties": {"a": True, "b": True},
        "additionalProperties": False,
    },
    "object": None,
}
QUESTION = [("user", "Give me an example as JSON.")]
OTHERS = [("user", "Tell me a story about a fox.")]


@pytest.fixture(scope="module", autouse=True)
def _native_core():
    obstacle = NativeBackend.probe()
    if obstacle is not None:
        pytest.skip(obstacle)


@pytest.fixture
async def bench():
    async with worker_bench(
        backend=NativeBackend(num_threads=2),
        model=prepared_model(),
        MAX_LORAS="3",
        MAX_NUM_SEQS="8",
        BLOCK_SIZE="16",
        KV_CACHE_SIZE="48MiB",
    ) as made:
        yield made


def json_constraint(schema):
    if schema is None:
        return Constraint(json_object=True)
    return Constraint(json_schema=json.dumps(schema))


def assert_is_valid(answer, schema):
    """Parses and satisfies the schema, unless it was cut."""
    if answer.finished.finish_reason == FINISH_REASON_LENGTH:
        return False
    value = json.loads(answer.text)
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(value, schema or {"type": "object"}, format_checker=formats)
    assert "\n" not in answer.text
    return True


async def test_every_output_parses_and_satisfies_its_schema(bench):
    async def answers(schema, seed):
        options = {} if seed is None else {"temperature": 1.2, "seed": seed}
        return await bench.generate(
            QUESTION,
            constraint=json_constraint(schema),
            max_tokens=120,
            ignore_eos=False,
            **options,
        )

    for name, schema in SCHEMAS.items():
        made = await asyncio.gather(*(answers(schema, seed) for seed in (None, 1, 2, 3)))
        whole = [assert_is_valid(answer, schema) for answer in made]
        # The last two have no bound.
        assert any(whole) or name in ("tree", "object"), name


@pytest.mark.parametrize("temperature", [0.0, 1.2])
async def test_patterns_match_the_whole_output(bench, temperature):
    pattern = r"(Yes|No), because [a-z ,]{5,40}\."
    for seed in range(4):
        answer = await bench.generate(
            [("user", "Is the sky green?")],
            constraint=Constraint(regex=pattern),
            temperature=temperature,
            seed=seed,
            max_tokens=60,
        )
        assert re.fullmatch(pattern, answer.text)
        assert answer.finished.finish_reason == FINISH_REASON_STOP


async def test_one_that_is_cut_says_so_and_is_a_beginning(bench):
    options = {"constraint": json_constraint(PERSON), "ignore_eos": False}
    whole = await bench.generate(QUESTION, max_tokens=120, **options)
    cut = await bench.generate(QUESTION, max_tokens=5, **options)
    assert whole.finished.finish_reason == FINISH_REASON_STOP
    assert cut.finished.finish_reason == FINISH_REASON_LENGTH
    assert whole.text.startswith(cut.text)


HOSTILE = [
    Constraint(json_schema='{"type": "integer", "multipleOf": 999983}'),
    Constraint(json_schema='{"type": "integer", "multipleOf": 999979}'),
    Constraint(json_schema='{"type": "string", "minLength": 1000000000}'),
    Constraint(json_schema='{"items":' * 5000 + "{}" + "}" * 5000),
    Constraint(json_schema="[" * 60_000),
    Constraint(json_schema='{"$ref": "#"}'),
    Constraint(json_schema='{"type": "string", "pattern": "\\u0000"}'),
    Constraint(json_schema='{"type": "string", "pattern": "["}'),
    Constraint(json_schema='{"not": {}}'),
    Constraint(regex="["),
    Constraint(regex="("),
    Constraint(regex="a{99999999}"),
    Constraint(regex="\0abc"),
    Constraint(lark="start: b"),
    Constraint(lark="start: " + "(" * 5000),
    Constraint(),
]


async def test_hostile_constraints_are_refused_and_other_streams_untouched_X05_X06_T18(bench):
    others = {"max_tokens": 150}
    expected = await bench.generate(OTHERS, **others)
    streams = [asyncio.create_task(bench.generate(OTHERS, **others)) for _ in range(2)]
    for constraint in HOSTILE:
        error = ServiceUnavailableError("not asked yet")
        # On a crowded machine a check may be too late, which says nothing of the constraint.
        while isinstance(error, ServiceUnavailableError):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await bench.generate(QUESTION, constraint=constraint, max_tokens=20)
            error = from_rpc_error(caught.value)
        assert isinstance(error, InvalidRequestError), error
        assert error.field.startswith("options.constraint")
        assert error.message.startswith(error.field)
        assert "abc" not in error.message and "999983" not in error.message
    for stream in streams:
        answer = await stream
        assert (answer.token_ids, answer.text) == (expected.token_ids, expected.text)
    await bench.rest()


async def test_a_constraint_leaves_nothing_behind(bench):
    for constraint in (HOSTILE[5], json_constraint(PERSON)) * 2:
        if constraint is HOSTILE[5]:
            with pytest.raises(grpc.aio.AioRpcError):
                await bench.generate(QUESTION, constraint=constraint)
        else:
            answer = await bench.generate(QUESTION, constraint=constraint, max_tokens=60)
            assert_is_valid(answer, PERSON)
    # One process checks; what it forks has ended.
    assert [child.children() for child in psutil.Process().children()] == [[]]
    await bench.rest()


WEATHER = Tool(
    name="get_weather",
    description="Tells the weather of a city.",
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20, "description": "Which city"},
                "unit": {"enum": ["C", "F"]},
                "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            },
            "required": ["city", "unit"],
        }
    ),
)
STOP_MUSIC = Tool(name="stop-music.now", description="Stops the music.")


def calls_in(answer):
    """What the gateway makes of an answer: text, calls and reason."""
    reader = ToolCallReader()
    events = [event for delta in answer.deltas for event in reader.read(delta)]
    events += list(reader.end(answer.finished.finish_reason))
    text = "".join(event.delta.text for event in events)
    calls = [event.tool_call for event in events if event.HasField("tool_call")]
    return text, calls, reader.reason(answer.finished.finish_reason)


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("is_parallel", [False, True])
async def test_arguments_satisfy_the_tools_schemas(bench, temperature, is_parallel):
    tools = ToolUse(
        tools=[WEATHER, STOP_MUSIC],
        choice=ToolChoice.TOOL_CHOICE_REQUIRED,
        is_parallel=is_parallel,
    )
    num_calls = 0
    for seed in range(4):
        answer = await bench.generate(
            [("user", "What is the weather in Oslo?")],
            tools=tools,
            temperature=temperature,
            seed=seed,
            max_tokens=120,
        )
        text, calls, _ = calls_in(answer)
        assert text == ""
        assert is_parallel or len(calls) <= 1
        for call in calls:
            schema = {"get_weather": json.loads(WEATHER.parameters_json)}.get(
                call.name, {"maxProperties": 0}
            )
            jsonschema.validate(json.loads(call.arguments_json), schema)
        num_calls += len(calls)
    assert num_calls >= 3


async def test_a_choice_is_obeyed(bench):
    def ask(choice, name=""):
        tools = ToolUse(tools=[WEATHER, STOP_MUSIC], choice=choice, name=name)
        return bench.generate(
            [("user", "What is the weather in Oslo?")], tools=tools, max_tokens=60
        )

    _, (call,), _ = calls_in(await ask(ToolChoice.TOOL_CHOICE_NAMED, "stop-music.now"))
    assert (call.name, call.arguments_json) == ("stop-music.now", "{}")
    free = await ask(ToolChoice.TOOL_CHOICE_NONE)
    without = await bench.generate([("user", "What is the weather in Oslo?")], max_tokens=60)
    assert free.text == without.text
    text, calls, _ = calls_in(await ask(ToolChoice.TOOL_CHOICE_AUTO))
    assert text or calls


async def test_tools_and_constraints_of_wrong_forms_are_refused_by_field(bench):
    async def field_of(**options):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await bench.generate(QUESTION, **options)
        return from_rpc_error(caught.value).field

    broken = Tool(
        name="a", parameters_json='{"type": "object", "properties": {"p": {"pattern": "("}}}'
    )
    assert await field_of(tools=ToolUse(tools=[broken])) == "tools"
    twice = ToolUse(tools=[STOP_MUSIC, STOP_MUSIC])
    assert await field_of(tools=twice) == "tools.tools[1].name"
    both = {"tools": ToolUse(tools=[WEATHER]), "constraint": Constraint(json_object=True)}
    assert await field_of(**both) == "options.constraint"
