"""What a run needs is known beforehand, and the advice makes it fit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.training_memory import TrainingSize, free_bytes, is_out_of_memory
from edgelora.toolchain.training_options import TrainingOptions
from tests.support.tiny_base import tiny_base

OPTIONS = TrainingOptions(r=64, alpha=128, batch_tokens=8192)
SIZE = TrainingSize(
    base=tiny_base(), base_parameters=10**7, longest_tokens=100, loss_share=0.3, is_mixed=False
)


def test_every_way_out_needs_less() -> None:
    whole = SIZE.bytes(OPTIONS)
    for change in (
        {"gradient_checkpointing": True}, {"batch_tokens": 4096}, {"targets": ("q_proj",)},
    ):  # fmt: skip
        assert SIZE.bytes(dataclasses.replace(OPTIONS, **change)) < whole
    assert SIZE.bytes(OPTIONS.at_rank(16)) < whole
    assert dataclasses.replace(SIZE, is_mixed=True).bytes(OPTIONS) < whole
    assert SIZE.bytes(dataclasses.replace(OPTIONS, batch_tokens=10)) == SIZE.bytes(
        dataclasses.replace(OPTIONS, batch_tokens=100)
    ), "a step holds at least one example"


def test_advice_takes_what_costs_least_and_says_from_what_to_what() -> None:
    again = dataclasses.replace(OPTIONS, gradient_checkpointing=True)
    assert SIZE.advice(OPTIONS, SIZE.bytes(again)) == "try --gradient-checkpointing"
    smaller = dataclasses.replace(again, batch_tokens=2048)
    assert SIZE.advice(OPTIONS, SIZE.bytes(smaller)) == (
        "try --gradient-checkpointing and --batch-tokens 2048 instead of 8192"
    )
    least = dataclasses.replace(again, batch_tokens=128).at_rank(8)
    assert SIZE.advice(OPTIONS, SIZE.bytes(least)).endswith(" and rank 8 instead of 64")
    assert "no setting" in SIZE.advice(OPTIONS, 1000)
    assert SIZE.advice(again, None) == "try --batch-tokens 4096 instead of 8192"


def test_a_run_that_can_not_fit_is_refused_with_both_numbers() -> None:
    SIZE.check(OPTIONS, SIZE.bytes(OPTIONS))
    SIZE.check(OPTIONS, None)
    with pytest.raises(ToolchainError, match=r"needs about .* GB .* are free: try .*--force"):
        SIZE.check(OPTIONS, SIZE.bytes(OPTIONS) - 1)


def test_a_container_s_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n")
    assert free_bytes(tmp_path) == 6_000_000 * 1024
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000000000\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("600000000\n")
    assert free_bytes(tmp_path) == 400_000_000
    assert free_bytes(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate"
                      " memory: you tried to allocate 99 bytes"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)  # fmt: skip
def test_what_says_that_memory_ran_out(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory
