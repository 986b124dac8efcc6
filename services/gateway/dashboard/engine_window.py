"""What each adapter used of the engine over the last seconds. Pure: times are passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from edgelora.v1.inference_service_pb2 import AdapterShare, GetEngineStatusResponse

REST = "other"
"""The worker's name for the adapters beyond those it counts one by one."""
BASE = ""
"""The worker's name for the base model alone."""
_WINDOW_S = 5.0
_SLACK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterUse:
    """One adapter's part."""

    digest: str
    """BASE and REST among them."""
    share: float
    """Seconds of the engine for each second that passed."""
    output_tokens_per_s: float
    prompt_tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """The engine over the window."""

    share: float
    """Seconds it computed for each second that passed. It is counted by itself, as the tokens are;
    those of the adapters add up to it."""
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    adapters: tuple[AdapterUse, ...]
    """Those that used anything, the busiest first."""


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    status: GetEngineStatusResponse


class EngineWindow:
    """Keeps the readings of the last seconds: two at least, however far apart."""

    def __init__(self, window_s: float = _WINDOW_S) -> None:
        self._window_s = window_s
        self._readings: deque[_Reading] = deque()

    def add(self, at_s: float, status: GetEngineStatusResponse | None) -> None:
        """Adds a reading; None, or that of a worker that has started again, begins anew."""
        if status is None:
            self._readings.clear()
            return
        if self._readings and _has_restarted(self._readings[-1].status, status):
            self._readings.clear()
        self._readings.append(_Reading(at_s, status))
        while (
            len(self._readings) > 2 and self._readings[1].at_s <= at_s - self._window_s + _SLACK_S
        ):
            self._readings.popleft()

    def use(self) -> EngineUse | None:
        """The use between the oldest and the newest reading; None before there are two."""
        if len(self._readings) < 2:
            return None
        first, last = self._readings[0], self._readings[-1]
        passed_s = last.at_s - first.at_s
        if passed_s <= 0:
            return None
        adapters = _adapters(_shares(first.status), _shares(last.status), passed_s)
        return EngineUse(
            share=(_step_s(last.status) - _step_s(first.status)) / passed_s,
            output_tokens_per_s=(last.status.num_output_tokens - first.status.num_output_tokens)
            / passed_s,
            prompt_tokens_per_s=sum(adapter.prompt_tokens_per_s for adapter in adapters),
            adapters=adapters,
        )


def _adapters(
    before: Mapping[str, AdapterShare], now: Mapping[str, AdapterShare], passed_s: float
) -> tuple[AdapterUse, ...]:
    # What an adapter had used moves to the rest when it is no longer counted by itself.
    gone = [share for digest, share in before.items() if digest not in now]
    uses = []
    for digest, share in now.items():
        counted = [before[digest]] if digest in before else []
        if digest == REST:
            counted += gone
        use = AdapterUse(
            digest=digest,
            share=_rate(_time_s(share), [_time_s(old) for old in counted], passed_s),
            output_tokens_per_s=_rate(
                share.num_output_tokens, [old.num_output_tokens for old in counted], passed_s
            ),
            prompt_tokens_per_s=_rate(
                share.num_prompt_tokens, [old.num_prompt_tokens for old in counted], passed_s
            ),
        )
        if use.share or use.output_tokens_per_s or use.prompt_tokens_per_s:
            uses.append(use)
    return tuple(sorted(uses, key=lambda use: use.share, reverse=True))


def _rate(now: float, before: list[float], passed_s: float) -> float:
    return max(0.0, now - sum(before)) / passed_s


def _shares(status: GetEngineStatusResponse) -> dict[str, AdapterShare]:
    return {share.digest: share for share in status.shares}


def _has_restarted(before: GetEngineStatusResponse, now: GetEngineStatusResponse) -> bool:
    return now.num_steps < before.num_steps or _step_s(now) < _step_s(before)


def _step_s(status: GetEngineStatusResponse) -> float:
    return status.step_time.ToMicroseconds() / 1e6


def _time_s(share: AdapterShare) -> float:
    return share.step_time.ToMicroseconds() / 1e6
