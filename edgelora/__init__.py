"""EdgeLoRA: one language model for many tenants, each with its own LoRA adapter, in one batch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgelora.client import AdminClient, EdgeLoraClient
    from edgelora.degradation import Degradation, DegradationPreference
    from edgelora.errors import EdgeLoraError
    from edgelora.generation import (
        Accepted,
        Delta,
        Done,
        GenerationEvent,
        GenerationOptions,
        Usage,
        UsedAdapter,
    )
    from edgelora.routed import RoutedAdapter, Routing
    from edgelora.tools import Message, Tool, ToolCall

__all__ = [
    "Accepted",
    "AdminClient",
    "Degradation",
    "DegradationPreference",
    "Delta",
    "Done",
    "EdgeLoraClient",
    "EdgeLoraError",
    "GenerationEvent",
    "GenerationOptions",
    "Message",
    "RoutedAdapter",
    "Routing",
    "Tool",
    "ToolCall",
    "Usage",
    "UsedAdapter",
]

_MODULES = {
    "AdminClient": "client",
    "Degradation": "degradation",
    "DegradationPreference": "degradation",
    "EdgeLoraClient": "client",
    "EdgeLoraError": "errors",
    "Message": "tools",
    "RoutedAdapter": "routed",
    "Routing": "routed",
    "Tool": "tools",
    "ToolCall": "tools",
}
"""Where names come from that do not come from `generation`."""


def __getattr__(name: str) -> object:
    # Loaded at the first use (PEP 562): gRPC is most of it, and many processes need only a part.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'generation')}"), name)
