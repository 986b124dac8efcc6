"""Names of models as this dialect has them: `name` and `name:latest` are one. Pure."""

from __future__ import annotations

from edgelora.v1.adapter_pb2 import AdapterSelection
from services.gateway.http.model_names import selections_of

LATEST = ":latest"


def tagged(name: str) -> str:
    """The name under which a model is listed: clients look for one with a tag."""
    return name if ":" in name else name + LATEST


def selections_named(name: str, base_name: str, other_name: str = "") -> list[AdapterSelection]:
    """The adapters of `name`, `name:latest` or `base:name`; none for the base model.

    Raises InvalidRequestError for a blank name and for the other base model, and
    AdapterNotFoundError for one that no model can have: clients fetch what is not found.
    """
    is_base = name in (base_name, tagged(base_name))
    return selections_of(base_name if is_base else name.removesuffix(LATEST), base_name, other_name)
