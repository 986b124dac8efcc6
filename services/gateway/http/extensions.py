"""Fields that go beyond an API's own, the same in every dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgelora.adapter_names import AUTO
from edgelora.v1.adapter_pb2 import AdapterSelection
from edgelora.v1.degradation_pb2 import DegradationPreference
from edgelora.v1.generation_pb2 import PriorityClass
from services.gateway.http.field_names import by_prefix, renamed
from services.gateway.http.json_fields import Fields

_PRIORITIES = {
    "interactive": PriorityClass.PRIORITY_CLASS_INTERACTIVE,
    "background": PriorityClass.PRIORITY_CLASS_BACKGROUND,
    "batch": PriorityClass.PRIORITY_CLASS_BATCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """What a request says in them."""

    selections: list[AdapterSelection]
    """Its adapters, those `model` names included."""
    priority: PriorityClass
    user: str
    session: str
    degradation: DegradationPreference
    deadline_s: float | None
    """How long the client will wait for the whole answer; None leaves it to the gateway."""
    names: dict[str, str]
    """What the front door calls a field -> what the client called it."""


def read_extensions(fields: Fields, resolve: Callable[[str], list[AdapterSelection]]) -> Extensions:
    """Reads `model`, `adapter_strength`, `adapters`, `priority`, `user`, `session`, `no_degraded`,
    `fallback_adapter` and `deadline_s`; `resolve` tells what a model's name means.

    Raises InvalidRequestError, and what `resolve` raises.
    """
    selections, names = _adapters(fields, resolve)
    names["degradation.fallback_adapter"] = "fallback_adapter"
    names["degradation.is_refused"] = "no_degraded"
    return Extensions(
        selections=selections,
        priority=read_priority(fields),
        user=fields.text("user") or "",
        session=fields.text("session") or "",
        degradation=DegradationPreference(
            is_refused=fields.boolean("no_degraded") or False,
            fallback_adapter=fields.text("fallback_adapter") or "",
        ),
        deadline_s=read_deadline(fields),
        names=names,
    )


def read_priority(fields: Fields) -> PriorityClass:
    """Reads `priority`. Raises InvalidRequestError."""
    return _PRIORITIES[fields.one_of("priority", _PRIORITIES) or "interactive"]


def read_deadline(fields: Fields) -> float | None:
    """Reads `deadline_s`. Raises InvalidRequestError."""
    deadline_s = fields.number("deadline_s")
    if deadline_s is not None and not deadline_s > 0:
        raise fields.invalid("deadline_s", "must be a number of seconds above 0")
    return deadline_s


def _adapters(
    fields: Fields, resolve: Callable[[str], list[AdapterSelection]]
) -> tuple[list[AdapterSelection], dict[str, str]]:
    """The adapters, and how the client called their fields."""
    named = resolve(fields.required_text("model"))
    strength = fields.number("adapter_strength")
    listed = fields.children("adapters")
    if listed is None:
        if strength is not None:
            if not named or named[0].adapter == AUTO:
                raise fields.invalid("adapter_strength", "needs an adapter named in model")
            named[0].strength = strength
        return named, {"adapters[0].adapter": "model", "adapters[0].strength": "adapter_strength"}
    if named:
        raise fields.invalid("adapters", "goes with the base model's name in model")
    if strength is not None:
        raise fields.invalid("adapter_strength", "goes with no adapters: give each its weight")
    names: dict[str, str] = {}
    for index, item in enumerate(listed):
        with renamed(by_prefix({"model": item.path("id")})):
            found = resolve(item.required_text("id"))
        if not found:
            raise item.invalid("id", "must be an adapter: the base model is always there")
        weight = item.number("weight")
        item.finish()
        if weight is not None:
            found[0].strength = weight
        named += found
        names[f"adapters[{index}].adapter"] = f"adapters[{index}].id"
        names[f"adapters[{index}].strength"] = f"adapters[{index}].weight"
    return named, names
