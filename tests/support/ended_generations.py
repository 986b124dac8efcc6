"""Ends of generations, as observers get them."""

from edgelora.v1.generation_pb2 import PriorityClass
from services.gateway.ended_generation import EndedGeneration


def ended(**changes):
    """A whole answer of 11 tokens after half a second: 50 ms for each token after the first."""
    fields = {
        "tenant_id": "acme",
        "priority": PriorityClass.PRIORITY_CLASS_INTERACTIVE,
        "adapter_digests": (),
        "queue_s": 0.1,
        "time_to_first_token_s": 0.5,
        "total_s": 1.0,
        "num_prompt_tokens": 5,
        "num_output_tokens": 11,
        "engine_s": 0.2,
        "degradations": (),
        "error": None,
        **changes,
    }
    return EndedGeneration(**fields)
