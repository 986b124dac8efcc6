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
)

DEFAULT_MAX_TOKENS = 256
MAX_LOGPROBS = 20
MAX_MESSAGES = 256
MAX_STOP_STRINGS = 16
MAX_STOP_STRING_CHARS = 256
MAX_STOP_TOKEN_IDS = 16
ROLES = ("system", "user", "assistant")


def check_options(options: GenerationOptions) -> None:
    """Checks every option that can be checked without knowing the model.

    The worker also checks stop token ids against its vocabulary and clips max_tokens to its
    context. Raises InvalidRequestError.
    """
    _check_sampling(options.sampling)
    _check_stop(options.stop)
    if options.HasField("logprobs") and options.logprobs > MAX_LOGPROBS:
        raise _invalid("options.logprobs", f"must be 0 to {MAX_LOGPROBS}")


def check_prompt(text: str) -> None:
    """Checks a plain prompt: not blank, no NUL. Raises InvalidRequestError."""
    _check_text(text, "prompt")


def check_conversation(messages: Sequence[ChatMessage]) -> None:
    """Checks a conversation: known roles, no blank message, the user's message last.

    A system message may only stand first. Raises InvalidRequestError.
    """
    if not messages:
        raise _invalid("messages", "must hold at least one message")
    if len(messages) > MAX_MESSAGES:
        raise _invalid("messages", f"may hold at most {MAX_MESSAGES} messages")
    for index, message in enumerate(messages):
        if message.role not in ROLES:
            raise _invalid(f"messages[{index}].role", f"must be one of {', '.join(ROLES)}")
        if message.role == "system" and index > 0:
            raise _invalid(f"messages[{index}].role", "may be system in the first message only")
        _check_text(message.content, f"messages[{index}].content")
    if messages[-1].role != "user":
        raise _invalid(f"messages[{len(messages) - 1}].role", "must be user in the last message")


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
    if "\0" in text:
        raise _invalid(field, "must not hold the NUL character")


def _invalid(field: str, rule: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} {rule}", field=field)
