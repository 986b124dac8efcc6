"""What a calibrated rounding may be asked for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.seed import check_seed

MAX_INPUTS = 1000
_UNITS = {"MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30}
_BUDGET = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(b|MB|GB|MiB|GiB)")


@dataclass(frozen=True, slots=True)
class SizeBudget:
    """The most that all matrices may take: one of the two is None."""

    num_bytes: int | None = None
    bits_per_weight: float | None = None

    @classmethod
    def parse(cls, text: str) -> SizeBudget:
        """Reads `90MB`, `0.5GiB`, or `5.0b` for bits a weight. Raises ToolchainError."""
        match = _BUDGET.fullmatch(text.strip())
        if match is None or float(match[1]) <= 0:
            raise ToolchainError(
                "the size budget must be bytes such as 90MB, or bits a weight such as 5.0b"
            )
        if match[2] == "b":
            return cls(bits_per_weight=float(match[1]))
        return cls(num_bytes=round(float(match[1]) * _UNITS[match[2]]))

    def bytes_of(self, num_weights: int) -> int:
        """The budget in bytes for so many weights."""
        if self.num_bytes is not None:
            return self.num_bytes
        assert self.bits_per_weight is not None
        return int(self.bits_per_weight * num_weights / 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisationOptions:
    """The settings of one calibrated rounding."""

    calibration: Path | None = None
    """Text, or chat data as JSONL; None: texts of the demos, and some the model writes itself."""
    inputs: int = 128
    """Windows of text to calibrate with, 1 to `MAX_INPUTS`."""
    input_tokens: int = 256
    """Tokens of a window."""
    sensitivity_inputs: int = 2
    """Windows that the sensitivity of every matrix is measured on."""
    sensitivity_tokens: int = 128
    held_out_inputs: int = 8
    """Further windows, for the report's figures before and after."""
    size_budget: SizeBudget | None = None
    """None: the default policy, whose size follows from the model's sensitivity."""
    left_out: tuple[str, ...] = ()
    """Modules such as `down_proj`, `embedding` or `head` that are not lowered: they stay 8-bit."""
    seed: int = 0

    def check(self) -> None:
        """Raises ToolchainError for the first setting that can not work."""
        if not 1 <= self.inputs <= MAX_INPUTS:
            raise ToolchainError(f"calibration inputs must be from 1 to {MAX_INPUTS}")
        for name in ("input_tokens", "sensitivity_tokens"):
            if not 16 <= getattr(self, name) <= 8192:
                raise ToolchainError(f"{name} must be from 16 to 8192")
        for name in ("sensitivity_inputs", "held_out_inputs"):
            if not 1 <= getattr(self, name) <= MAX_INPUTS:
                raise ToolchainError(f"{name} must be from 1 to {MAX_INPUTS}")
        check_seed(self.seed)
        budget = self.size_budget
        if budget is not None and not 0 < budget.bytes_of(8) < math.inf:
            raise ToolchainError("the size budget must be a positive number")
