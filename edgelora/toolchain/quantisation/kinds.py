"""The forms a matrix can be rounded to. Groups are 32 inputs of one output."""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 32


@dataclass(frozen=True, slots=True)
class Kind:
    """Whole numbers of `least` to `most`, times a half-precision scale for each group."""

    name: str
    bits: int
    has_minimum: bool = False
    """Whether a half-precision minimum is added, the numbers then counting from 0."""

    @property
    def least(self) -> int:
        """The smallest whole number."""
        if self.has_minimum:
            return 0
        # The kernels' 8-bit form is symmetric; the narrower ones use their last level too.
        return -127 if self.bits == 8 else -(1 << (self.bits - 1))

    @property
    def most(self) -> int:
        """The largest whole number."""
        return (1 << (self.bits if self.has_minimum else self.bits - 1)) - 1

    @property
    def bits_per_weight(self) -> float:
        """What a weight takes, scales and minima shared out."""
        return self.bits + (32 if self.has_minimum else 16) / GROUP

    def num_bytes(self, num_weights: int) -> int:
        """What so many weights take."""
        return round(num_weights * self.bits_per_weight / 8)


INT4 = Kind("int4", 4)
INT4_MINIMUM = Kind("int4-minimum", 4, has_minimum=True)
INT5 = Kind("int5", 5)
INT6 = Kind("int6", 6)
INT8 = Kind("int8", 8)
KINDS = (INT4, INT4_MINIMUM, INT5, INT6, INT8)
"""From the smallest to the largest."""
