"""What /api/chat and /api/generate have in common. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgelora.v1.generation_pb2 import GenerationOptions
from edgelora.v1.inference_service_pb2 import GetModelResponse
from services.gateway.http.extensions import Extensions, read_extensions
from services.gateway.http.field_names import Rename, by_prefix
from services.gateway.http.json_fields import Fields
from services.gateway.http.ollama.model_tags import selections_named
from services.gateway.http.ollama.options import NAMES, generation_options

_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_MAX_DURATION_CHARS = 64
_UNSERVED = {
    "images": "are not served: this model reads text",
    "suffix": "is not served: this model does not insert",
    "template": "is not served: the model's own is used; prompt with raw has none",
    "chat_template": "is not served: the model's own is used",
    "chat_template_kwargs": "are not served: the model's own template is used",
    "context": "is not served: send the messages to /api/chat",
    "logprobs": "are not served here: /v1/chat/completions has them",
    "top_logprobs": "are not served here: /v1/chat/completions has them",
}
"""Fields that would change the answer, and why they do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How somebody wants an answer."""

    model: str
    """As the client wrote it; a name of the caller's once the request was accepted."""
    extensions: Extensions
    options: GenerationOptions
    is_streamed: bool
    frees_model: bool
    """`keep_alive` is 0, which frees the model in Ollama where nothing is asked of it."""

    def rename(self, names: Mapping[str, str]) -> Rename:
        """What the client called the fields of an error; `names` are those of its path."""
        return by_prefix({**NAMES, **self.extensions.names, **names})


def read_wishes(body: Fields, model: GetModelResponse, other_name: str = "") -> Wishes:
    """Reads them; `other_name` as in `selections_of`.

    As in Ollama, a field that is not known changes nothing.

    Raises InvalidRequestError, and AdapterNotFoundError for a name no model can have.
    """
    extensions = read_extensions(body, lambda name: selections_named(name, model.name, other_name))
    for name, reason in _UNSERVED.items():
        if body.anything(name) not in (None, False, 0, "", [], {}):
            raise body.invalid(name, reason)
    if body.anything("think") not in (None, False):
        raise body.invalid("think", "must be false: this model does not think aloud")
    is_streamed = body.boolean("stream")
    return Wishes(
        model=body.required_text("model"),
        extensions=extensions,
        options=generation_options(body, model.max_context_tokens),
        is_streamed=is_streamed is not False,
        frees_model=_is_nothing(body),
    )


def _is_nothing(body: Fields) -> bool:
    """Whether `keep_alive` is no time at all; the model stays, however long it is."""
    value = body.anything("keep_alive")
    if isinstance(value, str):
        if len(value) > _MAX_DURATION_CHARS or not _DURATION.fullmatch(value):
            raise body.invalid("keep_alive", 'must be seconds, or a duration such as "5m"')
        return not any(digit in value for digit in "123456789")
    seconds = body.number("keep_alive")
    return seconds is not None and seconds == 0
