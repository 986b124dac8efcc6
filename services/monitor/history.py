"""The last samples, a bounded number of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from services.monitor.sample import DeviceSample


class History:
    """A ring of samples with the time each was taken."""

    def __init__(self, max_samples: int) -> None:
        self._samples: deque[tuple[float, DeviceSample]] = deque(maxlen=max_samples)

    def __len__(self) -> int:
        return len(self._samples)

    def append(self, sample: DeviceSample, at_s: float) -> None:
        """Adds the newest sample; the oldest one goes when the ring is full."""
        self._samples.append((at_s, sample))

    def since(self, at_s: float) -> list[DeviceSample]:
        """Returns the samples taken at `at_s` or later, oldest first."""
        return [sample for taken_at_s, sample in self._samples if taken_at_s >= at_s]

    def highest(
        self, value_of: Callable[[DeviceSample], float | None], since_s: float
    ) -> float | None:
        """Returns the highest known value since then; None when it was never known."""
        values = (value_of(sample) for sample in self.since(since_s))
        return max((value for value in values if value is not None), default=None)
