"""Names of models as this dialect has them: `name` and `name:latest` are one. Pure."""

from __future__ import annotations

from edgelora.errors import AdapterNotFoundError, InvalidRequestError
from edgelora.v1.adapter_pb2 import AdapterSelection
from services.gateway.http.model_names import selections_of
from services.gateway.validation import check_adapter_name

LATEST = ":latest"


def tagged(name: str) -> str:
    """The name under which a model is listed: clients look for one with a tag."""
    return name if ":" in name else name + LATEST


def selections_named(name: str, base_name: str) -> list[AdapterSelection]:
    """The adapters of `name`, `name:latest` or `base:name`; none for the base model.

    Raises InvalidRequestError for a blank name, and AdapterNotFoundError for one that no model can
    have: clients fetch what is not found.
    """
    is_base = name in (base_name, tagged(base_name))
    selections = selections_of(base_name if is_base else name.removesuffix(LATEST), base_name)
    for selection in selections:
        try:
            check_adapter_name(selection.adapter, "model")
        except InvalidRequestError:
            raise AdapterNotFoundError(
                "there is no such model: GET /api/tags lists what there is", field="model"
            ) from None
    return selections
