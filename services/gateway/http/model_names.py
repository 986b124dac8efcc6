"""What the `model` of a request means: the base model, an adapter, or the router's choice."""

from __future__ import annotations

from edgelora.errors import InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterSelection


def selections_of(name: str, base_name: str) -> list[AdapterSelection]:
    """The adapters of a model name: none for the base model.

    `name` is the base's name, an alias, `base:alias`, a digest, or `auto`. Only the exact name of
    the base means the base: anything else that is no adapter is not found later, by the store.
    Raises InvalidRequestError for a blank name.
    """
    if not name.strip():
        raise InvalidRequestError("model must name the base model or an adapter", field="model")
    if name == base_name:
        return []
    return [AdapterSelection(adapter=name.removeprefix(f"{base_name}:"))]
