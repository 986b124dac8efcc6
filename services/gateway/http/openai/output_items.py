"""The items of a response's output, and the events in which each comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgelora.v1.generation_pb2 import TokenLogprob, ToolCall
from services.gateway.http.openai.logprobs import token_document

NamedEvent = tuple[str, dict[str, object]]


class MessageItem:
    """What the model says, growing."""

    def __init__(self, request_id: str, index: int) -> None:
        """`index`: its place in the output."""
        self._id = f"msg_{request_id}_{index}"
        self._place: dict[str, object] = {"output_index": index}
        self._part_place: dict[str, object] = {
            "item_id": self._id,
            "output_index": index,
            "content_index": 0,
        }
        self._texts: list[str] = []
        self._logprobs: list[object] = []

    def opening(self) -> Iterator[NamedEvent]:
        """The item, then its one part, both empty."""
        item = {**self.document(is_done=False), "content": []}
        yield "response.output_item.added", {**self._place, "item": item}
        yield "response.content_part.added", {**self._part_place, "part": self._part()}

    def delta(self, text: str, logprobs: Sequence[TokenLogprob]) -> NamedEvent:
        """More of its text."""
        added = self.add(text, logprobs)
        return (
            "response.output_text.delta",
            {**self._part_place, "delta": text, "logprobs": added},
        )

    def add(self, text: str, logprobs: Sequence[TokenLogprob]) -> list[object]:
        """Grows; returns the log probabilities of what was added."""
        self._texts.append(text)
        added: list[object] = [token_document(token) for token in logprobs]
        self._logprobs += added
        return added

    def closing(self) -> Iterator[NamedEvent]:
        """Its text, its part and itself, whole."""
        text = {**self._part_place, "text": "".join(self._texts), "logprobs": self._logprobs}
        yield "response.output_text.done", text
        yield "response.content_part.done", {**self._part_place, "part": self._part()}
        yield "response.output_item.done", {**self._place, "item": self.document(is_done=True)}

    def document(self, *, is_done: bool) -> dict[str, object]:
        """The item as it is now."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "status": "completed" if is_done else "in_progress",
            "content": [self._part()],
        }

    def _part(self) -> dict[str, object]:
        return {
            "type": "output_text",
            "text": "".join(self._texts),
            "annotations": [],
            "logprobs": self._logprobs,
        }


def call_item(call: ToolCall, request_id: str, index: int) -> dict[str, object]:
    """A call of a tool, whole."""
    return {
        "id": f"fc_{request_id}_{index}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments_json,
        "status": "completed",
    }


def call_events(item: dict[str, object], index: int) -> Iterator[NamedEvent]:
    """The events of a call, which comes whole."""
    place: dict[str, object] = {"output_index": index}
    of_item = {**place, "item_id": item["id"]}
    opened = {**item, "arguments": "", "status": "in_progress"}
    arguments = item["arguments"]
    yield "response.output_item.added", {**place, "item": opened}
    yield "response.function_call_arguments.delta", {**of_item, "delta": arguments}
    yield (
        "response.function_call_arguments.done",
        {**of_item, "name": item["name"], "arguments": arguments},
    )
    yield "response.output_item.done", {**place, "item": item}
