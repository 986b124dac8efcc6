"""Who is checked when: the same grammar once, refusals remembered, errors that pass forgotten."""

import asyncio
import json

import pytest

from edgelora.errors import InvalidRequestError, QueueFullError, ServiceUnavailableError
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    Constraint,
    Conversation,
    GenerationInput,
    GenerationOptions,
    Tool,
    ToolChoice,
    ToolUse,
)
from services.inference.constraints.compiler import ConstraintCompiler
from services.inference.constraints.verdict import REASONS, Verdict, verdict_of
from services.inference.tokenizer import TextTokenizer
from tests.support.small_tokenizer import EOS_TOKEN_ID, small_tokenizer


class HeldChecker:
    """Answers what it is told, when it is let go; counts what it was asked."""

    def __init__(self):
        self.asked = []
        self.answers = []
        self.is_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def check(self, grammar, tenant_id):
        self.asked.append(tenant_id)
        self.is_asked.set()
        await self.go_on.wait()
        answer = self.answers.pop(0) if self.answers else Verdict.FITS
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self):
        pass


@pytest.fixture
async def checker():
    return HeldChecker()


@pytest.fixture
async def compiler(checker):
    tokenizer = TextTokenizer(small_tokenizer().to_str())
    made = ConstraintCompiler(tokenizer, 300, frozenset({EOS_TOKEN_ID}), checker)
    yield made
    await made.close()


def options(number=1):
    schema = {"type": "integer", "minimum": number}
    return GenerationOptions(constraint=Constraint(json_schema=json.dumps(schema)))


def compiled(compiler, number=1, tenant_id="tenant"):
    return compiler.compile(options(number), GenerationInput(), tenant_id)


async def test_without_a_constraint_nothing_is_asked_or_loaded(compiler, checker):
    tools = ToolUse(tools=[Tool(name="a")], choice=ToolChoice.TOOL_CHOICE_NONE)
    messages = [ChatMessage(role="user", content="Hi")]
    for source in (
        GenerationInput(prompt="Hi"),
        GenerationInput(conversation=Conversation(messages=messages, tools=tools)),
    ):
        assert await compiler.compile(GenerationOptions(), source, "tenant") is None
    assert checker.asked == []


async def test_a_grammar_is_checked_once_for_each_tenant(compiler, checker):
    first, second = await compiled(compiler), await compiled(compiler)
    assert first is not second
    await compiled(compiler, tenant_id="other")
    await compiled(compiler, number=2)
    assert checker.asked == ["tenant", "other", "tenant"]


async def test_requests_that_bring_the_same_at_once_share_the_check(compiler, checker):
    checker.go_on.clear()
    asking = [asyncio.create_task(compiled(compiler)) for _ in range(20)]
    await checker.is_asked.wait()
    # The one that began it leaves.
    asking[0].cancel()
    checker.go_on.set()
    made = await asyncio.gather(*asking[1:])
    assert len({id(each) for each in made}) == 19
    assert checker.asked == ["tenant"]


async def test_a_refusal_is_remembered_and_says_the_field(compiler, checker):
    checker.answers = [Verdict.TOO_COMPLEX]
    for _ in range(2):
        with pytest.raises(InvalidRequestError) as caught:
            await compiled(compiler)
        assert caught.value.field == "options.constraint.json_schema"
        assert caught.value.message.endswith(REASONS[Verdict.TOO_COMPLEX])
    assert len(checker.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Verdict.TIMED_OUT, ServiceUnavailableError),
        (QueueFullError("full"), QueueFullError),
        (ServiceUnavailableError("gone"), ServiceUnavailableError),
    ],
)
async def test_what_says_nothing_of_the_grammar_is_not_remembered(compiler, checker, answer, error):
    checker.answers = [answer]
    with pytest.raises(error):
        await compiled(compiler)
    assert await compiled(compiler) is not None
    assert len(checker.asked) == 2


async def test_a_failure_that_nobody_waits_for_is_no_noise(compiler, checker):
    checker.go_on.clear()
    checker.answers = [ServiceUnavailableError("gone")]
    asking = asyncio.create_task(compiled(compiler))
    await checker.is_asked.wait()
    asking.cancel()
    checker.go_on.set()
    assert await compiled(compiler, number=2) is not None


async def test_tools_are_checked_too(compiler, checker):
    messages = [ChatMessage(role="user", content="Hi")]
    tools = ToolUse(tools=[Tool(name="a")])
    source = GenerationInput(conversation=Conversation(messages=messages, tools=tools))
    checker.answers = [Verdict.UNSATISFIABLE, Verdict.FITS]
    with pytest.raises(InvalidRequestError) as caught:
        await compiler.compile(GenerationOptions(), source, "tenant")
    assert caught.value.field == "tools"
    tools.is_parallel = True
    source.conversation.tools.CopyFrom(tools)
    assert await compiler.compile(GenerationOptions(), source, "tenant") is not None


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("", Verdict.FITS),
        ("Unsatisfiable schema: minLength", Verdict.UNSATISFIABLE),
        ("oneOf constraints are not supported. Enable", Verdict.OVERLAPPING),
        ("regex parse error:\n    (", Verdict.BAD_PATTERN),
        ("schema too large", Verdict.TOO_COMPLEX),
        ("initial lexer configuration (grammar) too big", Verdict.TOO_COMPLEX),
        ("recursion limit exceeded at line 1", Verdict.TOO_COMPLEX),
        ("something else", Verdict.INVALID),
    ],
)
def test_messages_become_verdicts(message, verdict):
    assert verdict_of(message) is verdict
    assert verdict in REASONS or verdict is Verdict.FITS
