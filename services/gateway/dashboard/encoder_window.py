"""How many texts a second the encoder takes. Pure: times are passed in."""

from __future__ import annotations

from edgelora.v1.encoder_service_pb2 import GetEncoderStatusResponse


class EncoderWindow:
    """Keeps the last two readings."""

    def __init__(self) -> None:
        self._before: tuple[float, int] | None = None
        self._now: tuple[float, int] | None = None

    def add(self, at_s: float, status: GetEncoderStatusResponse | None) -> None:
        """Adds a reading; None, or that of an encoder that has started again, begins anew."""
        self._before = self._now
        self._now = None if status is None else (at_s, status.num_texts)
        if self._before and self._now and self._now[1] < self._before[1]:
            self._before = None

    def texts_per_s(self) -> float | None:
        """Between the two; None before there are two."""
        if self._before is None or self._now is None or self._now[0] <= self._before[0]:
            return None
        return (self._now[1] - self._before[1]) / (self._now[0] - self._before[0])
