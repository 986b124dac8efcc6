"""Places kept for tenants that hold none, so that a flooder's are not all there are.

One place in eight, at least one where a node has four: while others have asked in the last ten
minutes, a tenant that runs requests already may not take the last ones. A tenant that runs none
finds one of them at once, unless more such tenants came than are kept before a place was freed;
then it waits for the first lease that ends. A tenant that has been alone may use every place, so
the first request of another may find none kept.
"""

from __future__ import annotations

_COMPANY_S = 600.0
_LEAST_PLACES = 4
_PLACES_FOR_EACH_KEPT = 8


def kept_places(num_places: int) -> int:
    """Returns how many of a node's places are kept for tenants that hold none."""
    if num_places < _LEAST_PLACES:
        return 0
    return max(1, num_places // _PLACES_FOR_EACH_KEPT)


class Company:
    """Knows whether a tenant has been alone of late. The two last tenants are all it keeps."""

    def __init__(self) -> None:
        self._last: tuple[str, float] | None = None
        self._last_other: tuple[str, float] | None = None

    def note(self, tenant_id: str, now_s: float) -> None:
        """Takes note that a tenant asks."""
        if self._last is not None and self._last[0] != tenant_id:
            self._last_other = self._last
        self._last = (tenant_id, now_s)

    def has_company(self, tenant_id: str, now_s: float) -> bool:
        """Whether another tenant has asked within the last ten minutes."""
        is_last = self._last is not None and self._last[0] == tenant_id
        other = self._last_other if is_last else self._last
        return other is not None and now_s < other[1] + _COMPANY_S

    def next_change_s(self, now_s: float) -> float | None:
        """Returns when a tenant is alone again, after now; None when that is so already."""
        seen = (entry for entry in (self._last, self._last_other) if entry is not None)
        ends_s = [time_s + _COMPANY_S for _, time_s in seen]
        return min((end_s for end_s in ends_s if end_s > now_s), default=None)
