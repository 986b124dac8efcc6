"""A prepared model on which adapters can be measured: tiny, random, for the native core."""

from __future__ import annotations

from pathlib import Path

from services.chassis.base_model import NATIVE_FILE, BaseModel, file_digest
from tests.support.small_tokenizer import save_tokenizer

TARGETS: dict[str, tuple[int, int]] = {
    "q_proj": (448, 96),
    "k_proj": (64, 96),
    "v_proj": (64, 96),
    "o_proj": (96, 448),
    "gate_proj": (160, 96),
    "up_proj": (160, 96),
    "down_proj": (96, 160),
}
NUM_LAYERS = 3


def write_measured_base(directory: Path) -> BaseModel:
    """Writes model, tokenizer and description into a directory."""
    from tests.support.native_models import QWEN, QWEN_KINDS, write_model

    write_model(directory / NATIVE_FILE, QWEN, QWEN_KINDS, is_qwen=True)
    save_tokenizer(directory)
    base = BaseModel(
        name="tiny",
        digest="sha256:" + "5" * 64,
        family="qwen3",
        vocab_size=QWEN.vocab_size,
        hidden_size=QWEN.hidden_size,
        num_layers=NUM_LAYERS,
        max_context_tokens=QWEN.max_context_tokens,
        targets=TARGETS,
        files={NATIVE_FILE: file_digest(directory / NATIVE_FILE)},
    )
    base.save(directory)
    return base
