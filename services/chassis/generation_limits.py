"""What a generation request may ask for: the one list, checked by the gateway and by the worker.

Pure checks over the wire messages. Each raises InvalidRequestError naming the field and the
allowed range; none repeats what the caller wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgelora.errors import InvalidRequestError
from edgelora.v1.generation_pb2 import (
    ChatMessage,
    GenerationOptions,
    SamplingParams,
    StopConditions,
    ToolUse,
)
from services.chassis.tool_limits import (
    CONSTRAINT_FIELD,
    check_call_id,
    check_constraint,
    check_tool_calls,
    check_tools,
    may_call,
)

DEFAULT_MAX_TOKENS = 256
MAX_LOGPROBS = 20
MAX_MESSAGES = 256
MAX_SESSION_CHARS = 64
MAX_STOP_STRINGS = 16
MAX_STOP_STRING_CHARS = 256
MAX_STOP_TOKEN_IDS = 16
ROLES = ("system", "user", "assistant", "tool")


def check_options(options: GenerationOptions) -> None:
    """Checks every option that can be checked without knowing the model.

    The worker also checks stop token ids against its vocabulary and clips max_tokens to its
    context. Raises InvalidRequestError.
    """
    _check_sampling(options.sampling)
    _check_stop(options.stop)
    if options.HasField("logprobs") and options.logprobs > MAX_LOGPROBS:
        raise _invalid("options.logprobs", f"must be 0 to {MAX_LOGPROBS}")
    if options.HasField("constraint"):
        check_constraint(options.constraint)


def check_session(name: str) -> None:
    """Checks the name of a conversation; it may be empty. Raises InvalidRequestError."""
    if len(name) > MAX_SESSION_CHARS or not name.isprintable():
        raise _invalid("session", f"may have at most {MAX_SESSION_CHARS} characters, all printable")


def check_prompt(text: str) -> None:
    """Checks a plain prompt: not blank, no NUL. Raises InvalidRequestError."""
    _check_text(text, "prompt")


def check_conversation(messages: Sequence[ChatMessage]) -> None:
    """Checks a conversation: known roles, no blank message, the user's or a tool's message last.

    A system message may only stand first; tools' messages follow the calls they answer.
    Raises InvalidRequestError.
    """
    if not messages:
        raise _invalid("messages", "must hold at least one message")
    if len(messages) > MAX_MESSAGES:
        raise _invalid("messages", f"may hold at most {MAX_MESSAGES} messages")
    is_answer_due = False
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]", is_first=index == 0)
        if message.role == "tool" and not is_answer_due:
            raise _invalid(f"messages[{index}].role", "is tool where no message called one before")
        is_answer_due = message.role == "tool" or bool(message.tool_calls)
    if messages[-1].role not in ("user", "tool"):
        field = f"messages[{len(messages) - 1}].role"
        raise _invalid(field, "must be user or tool in the last message")


def check_tool_use(tools: ToolUse, options: GenerationOptions) -> None:
    """Checks the tools of a request, and that they go with its options.

    Raises InvalidRequestError.
    """
    check_tools(tools)
    if may_call(tools) and options.HasField("constraint"):
        raise _invalid(CONSTRAINT_FIELD, "goes with no tools: choose none of them, or leave it out")


def _check_message(message: ChatMessage, field: str, *, is_first: bool) -> None:
    if message.role not in ROLES:
        raise _invalid(f"{field}.role", f"must be one of {', '.join(ROLES)}")
    if message.role == "system" and not is_first:
        raise _invalid(f"{field}.role", "may be system in the first message only")
    # A tool may have nothing to say, and an assistant may only call.
    if message.tool_calls or message.role == "tool":
        _check_no_nul(message.content, f"{field}.content")
    else:
        _check_text(message.content, f"{field}.content")
    if message.tool_calls and message.role != "assistant":
        raise _invalid(f"{field}.tool_calls", "goes with the role assistant only")
    check_tool_calls(message.tool_calls, f"{field}.tool_calls")
    if message.tool_call_id and message.role != "tool":
        raise _invalid(f"{field}.tool_call_id", "goes with the role tool only")
    check_call_id(message.tool_call_id, f"{field}.tool_call_id")


def _check_sampling(sampling: SamplingParams) -> None:
    for name, low, high, is_low_allowed in (
        ("temperature", 0.0, 2.0, True),
        ("top_p", 0.0, 1.0, False),
        ("min_p", 0.0, 1.0, True),
        ("repetition_penalty", 0.0, 2.0, False),
        ("presence_penalty", -2.0, 2.0, True),
        ("frequency_penalty", -2.0, 2.0, True),
    ):
        if not sampling.HasField(name):
            continue
        value = getattr(sampling, name)
        # A comparison with NaN is false, so NaN and the infinities fail here as well.
        if not (low <= value <= high and (is_low_allowed or value > low)):
            start = f"{low:g}" if is_low_allowed else f"above {low:g}"
            raise _invalid(f"options.sampling.{name}", f"must be a number, {start} to {high:g}")
    if sampling.HasField("top_k") and sampling.top_k == 0:
        raise _invalid("options.sampling.top_k", "must be at least 1; leave it out to keep all")


def _check_stop(stop: StopConditions) -> None:
    if stop.HasField("max_tokens") and stop.max_tokens == 0:
        raise _invalid("options.stop.max_tokens", "must be at least 1")
    if len(stop.stop_strings) > MAX_STOP_STRINGS:
        raise _invalid("options.stop.stop_strings", f"may hold at most {MAX_STOP_STRINGS} strings")
    for index, text in enumerate(stop.stop_strings):
        field = f"options.stop.stop_strings[{index}]"
        if not 1 <= len(text) <= MAX_STOP_STRING_CHARS:
            raise _invalid(field, f"must have 1 to {MAX_STOP_STRING_CHARS} characters")
        if "\0" in text:
            raise _invalid(field, "must not hold the NUL character")
    if len(stop.stop_token_ids) > MAX_STOP_TOKEN_IDS:
        raise _invalid("options.stop.stop_token_ids", f"may hold at most {MAX_STOP_TOKEN_IDS} ids")


def _check_text(text: str, field: str) -> None:
    if not text.strip():
        raise _invalid(field, "must hold some text")
    _check_no_nul(text, field)


def _check_no_nul(text: str, field: str) -> None:
    if "\0" in text:
        raise _invalid(field, "must not hold the NUL character")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
