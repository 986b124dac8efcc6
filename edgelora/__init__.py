"""EdgeLoRA: one language model for many tenants, each with its own LoRA adapter, in one batch."""

from edgelora.client import AdminClient, EdgeLoraClient
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

__all__ = [
    "Accepted",
    "AdminClient",
    "Delta",
    "Done",
    "EdgeLoraClient",
    "EdgeLoraError",
    "GenerationEvent",
    "GenerationOptions",
    "Usage",
    "UsedAdapter",
]
