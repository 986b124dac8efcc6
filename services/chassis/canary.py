"""The prompt every adapter is tried with: at registration for its reference, after each load.

Both sides encode the text with the base model's own tokenizer, its start token included, and run
it at strength 1 with the adapter alone.
"""

from __future__ import annotations

CANARY_TEXT = "Tell me about the weather, please."
NUM_CANARY_LOGITS = 16
"""Likeliest next tokens after the prompt that the reference holds."""
