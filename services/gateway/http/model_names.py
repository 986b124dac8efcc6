"""What the `model` of a request means: a base model, an adapter, or the router's choice."""

from __future__ import annotations

from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterSelection
from services.gateway.validation import check_adapter_name


def selections_of(name: str, base_name: str, other_name: str = "") -> list[AdapterSelection]:
    """The adapters of a model name: none for the base model.

    `base_name` is the base model the path serves, and `other_name` the one it does not, where the
    node has two. `name` is the base's name, an alias, `base:alias`, a digest, or `auto`. Only the
    exact name of the base means the base: anything else that is no adapter is not found, later by
    the store. Raises InvalidRequestError for a blank name and for the other base model, and
    AdapterNotFoundError for one that no adapter can have.
    """
    if not name.strip():
        raise InvalidRequestError("model must name the base model or an adapter", field="model")
    if name == base_name:
        return []
    if other_name and is_of(name, other_name):
        raise InvalidRequestError(
            "model is not served by this path: an encoder classifies and embeds (/v1/classify, "
            "/v1/embeddings), a model that generates does neither",
            field="model",
        )
    adapter = name.removeprefix(f"{base_name}:")
    try:
        check_adapter_name(adapter, "model")
    except InvalidRequestError:
        raise AdapterNotFoundError("you have no such model (model)", field="model") from None
    return [AdapterSelection(adapter=adapter)]


def is_of(name: str, base_name: str) -> bool:
    """Whether a model name says of which base model it is: `base` or `base:alias`."""
    return name == base_name or name.startswith(f"{base_name}:")
