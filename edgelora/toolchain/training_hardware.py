"""What a training run computes on, and in which precision."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.training_options import TrainingOptions


@dataclass(frozen=True, slots=True)
class Hardware:
    """A device, and the type that the frozen base is kept and multiplied in."""

    device: torch.device
    dtype: torch.dtype

    @property
    def is_mixed(self) -> bool:
        """Whether products are narrower than the adapter, which is always fp32."""
        return self.dtype != torch.float32

    def precision(self) -> AbstractContextManager[None]:
        """Automatic mixed precision for one forward pass; nothing in fp32."""
        context: AbstractContextManager[None] = torch.autocast(
            self.device.type, self.dtype, enabled=self.is_mixed
        )
        return context

    @property
    def threads(self) -> int:
        """Processor threads that torch uses."""
        return torch.get_num_threads()

    def described(self) -> str:
        """For people, such as `bfloat16 mixed precision on 2 processor threads`."""
        name = str(self.dtype).removeprefix("torch.")
        kind = f"{name} mixed precision" if self.is_mixed else name
        if self.device.type == "cuda":
            return f"{kind} on {torch.cuda.get_device_name(self.device)}"
        return f"{kind} on {self.threads} of {os.cpu_count()} processor threads"


def choose_hardware(options: TrainingOptions) -> Hardware:
    """The hardware of a run; `threads` take effect here.

    Raises ToolchainError when CUDA is asked for and torch has none.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    has_cuda = torch.cuda.is_available()
    if options.device == "cuda" and not has_cuda:
        raise ToolchainError("torch finds no CUDA device: give --device cpu, or install its CUDA")
    device = torch.device("cuda" if has_cuda and options.device != "cpu" else "cpu")
    if options.precision != "auto":
        return Hardware(device, getattr(torch, options.precision))
    multiplies_bfloat16 = (
        torch.cuda.is_bf16_supported(including_emulation=False)
        if device.type == "cuda"
        else torch.cpu._is_avx512_bf16_supported()
    )
    return Hardware(device, torch.bfloat16 if multiplies_bfloat16 else torch.float32)
