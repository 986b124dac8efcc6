"""Turns a request's input into token ids, within the model's context or not at all."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from edgelora.errors import InvalidRequestError, PromptTooLongError
from edgelora.v1.generation_pb2 import GenerationInput, ToolUse
from services.chassis.generation_limits import check_conversation, check_prompt
from services.chassis.tool_limits import may_call
from services.inference.chat_template import ChatTemplate
from services.inference.low_priority import lower_thread_priority
from services.inference.tokenizer import TextTokenizer
from services.inference.tool_prompt import OfferedTool

MAX_CHARS_PER_CONTEXT_TOKEN = 16
"""No text averages more characters a token; longer ones are refused without being read."""
_INLINE_CHARS = 2048
"""Urgent texts up to this length are read on the event loop, in about half a millisecond."""


class PromptEncoder:
    """Checks, renders and encodes. A thread does so with long texts, so that they queue; another
    with those that nobody waits for, so that they hold up neither these nor the event loop."""

    def __init__(
        self, tokenizer: TextTokenizer, template: ChatTemplate | None, max_sequence_tokens: int
    ) -> None:
        """`max_sequence_tokens`: most tokens of prompt and output together."""
        self._tokenizer = tokenizer
        self._template = template
        self._max_sequence_tokens = max_sequence_tokens
        self._max_chars = max_sequence_tokens * MAX_CHARS_PER_CONTEXT_TOKEN
        self._urgent_thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._patient_thread = ThreadPoolExecutor(
            1, thread_name_prefix="patient-tokenizer", initializer=lower_thread_priority
        )

    async def encode(self, source: GenerationInput, *, is_urgent: bool = True) -> list[int]:
        """Token ids of the prompt, leaving room for at least one token of output.

        Its tools were checked.
        Raises InvalidRequestError, or PromptTooLongError with both numbers.
        """
        if is_urgent and _num_chars(source) <= _INLINE_CHARS:
            return self._encode(source)
        thread = self._urgent_thread if is_urgent else self._patient_thread
        return await asyncio.get_running_loop().run_in_executor(thread, self._encode, source)

    def close(self) -> None:
        """Ends the threads."""
        for thread in (self._urgent_thread, self._patient_thread):
            thread.shutdown(wait=False, cancel_futures=True)

    def _encode(self, source: GenerationInput) -> list[int]:
        match source.WhichOneof("input"):
            case "prompt":
                check_prompt(source.prompt)
                self._check_length(_num_chars(source))
                token_ids = self._tokenizer.encode(source.prompt)
            case "conversation":
                conversation = source.conversation
                check_conversation(conversation.messages)
                self._check_length(_num_chars(source))
                if self._template is None:
                    raise InvalidRequestError(
                        "messages: this model has no chat template: send a prompt instead",
                        field="messages",
                    )
                offered = _offered(conversation.tools)
                text, marker = self._template.render(conversation.messages, offered)
                token_ids = self._tokenizer.encode_rendered(text, marker)
            case _:
                raise InvalidRequestError(
                    "input: a prompt or a conversation is required", field="input"
                )
        self._check_fit(len(token_ids))
        return token_ids

    def _check_length(self, num_chars: int) -> None:
        if num_chars > self._max_chars:
            raise PromptTooLongError(
                f"the prompt has {num_chars} characters, at most {self._max_chars} are read for "
                f"a context of {self._max_sequence_tokens} tokens: shorten it",
                field="prompt",
                metadata={
                    "num_chars": str(num_chars),
                    "max_chars": str(self._max_chars),
                    "max_tokens": str(self._max_sequence_tokens),
                },
            )

    def _check_fit(self, num_tokens: int) -> None:
        if num_tokens >= self._max_sequence_tokens:
            raise PromptTooLongError(
                f"the prompt has {num_tokens} tokens, the context holds "
                f"{self._max_sequence_tokens} with the answer: shorten it",
                field="prompt",
                metadata={
                    "num_tokens": str(num_tokens),
                    "max_tokens": str(self._max_sequence_tokens),
                },
            )


def _num_chars(source: GenerationInput) -> int:
    """Those a request wrote; what it has not set is empty."""
    conversation = source.conversation
    return (
        len(source.prompt)
        + sum(
            len(message.content) + sum(len(call.arguments_json) for call in message.tool_calls)
            for message in conversation.messages
        )
        + sum(
            len(tool.description) + len(tool.parameters_json) for tool in conversation.tools.tools
        )
    )


def _offered(tools: ToolUse) -> list[OfferedTool]:
    if not may_call(tools):
        return []
    return [
        OfferedTool(
            tool.name,
            tool.description,
            json.loads(tool.parameters_json) if tool.parameters_json else {"type": "object"},
        )
        for tool in tools.tools
    ]
