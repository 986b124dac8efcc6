"""The fields of a request to the encoder, the same in every dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.generation_pb2 import PriorityClass
from services.gateway.http.extensions import read_deadline, read_priority
from services.gateway.http.field_names import Rename, by_prefix
from services.gateway.http.json_fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingFields:
    """What a request says."""

    model: str
    """As the client wrote it; it is a name of the caller's once the request was accepted."""
    texts: list[str]
    adapter: AdapterSelection | None
    """None for the base model."""
    priority: PriorityClass
    user: str
    deadline_s: float | None
    """How long the client will wait; None leaves it to the gateway."""
    rename: Rename
    """For errors: how the client wrote the fields."""


def read_encoding(
    fields: Fields, texts_name: str, resolve: Callable[[str], list[AdapterSelection]]
) -> EncodingFields:
    """Reads `model`, the texts, `adapter_strength`, `priority`, `user` and `deadline_s`.

    `resolve` tells what a model's name means. Raises InvalidRequestError, and what `resolve`
    raises.
    """
    model = fields.required_text("model")
    selections = resolve(model)
    strength = fields.number("adapter_strength")
    if strength is not None:
        if not selections:
            raise fields.invalid("adapter_strength", "needs an adapter named in model")
        selections[0].strength = strength
    texts = _texts(fields, texts_name)
    is_one = fields.is_text(texts_name)
    return EncodingFields(
        model=model,
        texts=texts,
        adapter=selections[0] if selections else None,
        priority=read_priority(fields),
        user=fields.text("user") or "",
        deadline_s=read_deadline(fields),
        rename=by_prefix(
            {
                "adapter.adapter": "model",
                "adapter.strength": "adapter_strength",
                "adapter": "model",
                "texts": texts_name,
                "top_labels": "top",
                **({"texts[0]": texts_name} if is_one else {}),
            }
        ),
    )


def _texts(fields: Fields, name: str) -> list[str]:
    value = fields.anything(name)
    if value is None:
        raise fields.invalid(name, "is missing")
    if isinstance(value, list) and value and all(isinstance(each, int | list) for each in value):
        raise fields.invalid(name, "must be text: token ids are not served")
    texts = fields.text_or_texts(name)
    assert texts is not None, "it is there"
    return texts
