"""Token counts in OpenAI's words."""

from __future__ import annotations

from edgelora.v1.generation_pb2 import Usage


def usage_document(usage: Usage) -> dict[str, object]:
    """`usage` of chat and text completions."""
    return {
        "prompt_tokens": usage.num_prompt_tokens,
        "completion_tokens": usage.num_output_tokens,
        "total_tokens": usage.num_prompt_tokens + usage.num_output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.num_cached_prompt_tokens},
    }
