"""The base model the adapters of `adapter_files` fit."""

from services.chassis.base_model import BaseModel
from tests.support.adapter_files import TINY_LAYERS, TINY_TARGETS


def tiny_base(digest: str = "sha256:" + "0" * 64) -> BaseModel:
    """Its description; there are no weights."""
    return BaseModel(
        name="tiny",
        digest=digest,
        family="llama",
        vocab_size=64,
        hidden_size=32,
        num_layers=TINY_LAYERS,
        max_context_tokens=64,
        targets=TINY_TARGETS,
        files={},
    )
