"""Who has logged in: random tokens that end. The clock is passed in."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict

SESSION_S = 12 * 3600.0
_MAX_SESSIONS = 16
_NUM_BYTES = 32


class BrowserSessions:
    """At most 16 sessions, each of 12 hours; the oldest makes room."""

    def __init__(self) -> None:
        self._ends_s: OrderedDict[bytes, float] = OrderedDict()
        """Hash of the token -> when it ends: what is looked up is not what a guess is made of."""

    def begin(self, now_s: float) -> str:
        """Returns the token of a new session."""
        token = secrets.token_urlsafe(_NUM_BYTES)
        self._ends_s[_hashed(token)] = now_s + SESSION_S
        if len(self._ends_s) > _MAX_SESSIONS:
            self._ends_s.popitem(last=False)
        return token

    def is_active(self, token: str, now_s: float) -> bool:
        """Whether the token belongs to a session that has not ended."""
        return now_s < self._ends_s.get(_hashed(token), now_s)

    def end(self, token: str) -> None:
        """Ends a session; an unknown one has ended already."""
        self._ends_s.pop(_hashed(token), None)


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
