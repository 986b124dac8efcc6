"""How a registry is told who asks: Basic, or a token fetched for each repository.

Distribution specification, `auth/token.md`; RFC 7235 for the challenge.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

from edgelora.adapter_format.strict_json import parse_object
from edgelora.errors import AdapterRejectedError
from services.adapter_store.remotes.failures import faulty
from services.adapter_store.remotes.remote_http import RemoteHttp
from services.adapter_store.remotes.web_address import WebAddress, parse_web_address

_PARAMETER = re.compile(r'([A-Za-z]+)="([^"\\]*)"')
_TOKEN = re.compile(r"[!-~]{1,16384}")
_MAX_ANSWER_BYTES = 64 * 1024
_MAX_LIFE_S = 3600.0
_DEFAULT_LIFE_S = 60.0
"""Of a token that does not say how long it lives."""


class RegistryAccess:
    """Answers a registry's challenges, and remembers the answers while they hold."""

    def __init__(
        self, http: RemoteHttp, authorization: str | None, clock_s: Callable[[], float]
    ) -> None:
        self._http = http
        self._authorization = authorization
        """The operator's: Basic, or a token of its own."""
        self._clock_s = clock_s
        self._known: dict[str, tuple[str, float]] = {}

    def known(self, repository: str) -> str | None:
        """The Authorization that worked for a repository, if it still holds."""
        value, ends_at_s = self._known.get(repository, (None, 0.0))
        return value if self._clock_s() < ends_at_s else None

    async def answer(self, repository: str, challenge: str) -> str | None:
        """The Authorization for a challenge, None when there is nothing to offer.

        Raises RemoteFailure when a token can not be had.
        """
        scheme, _, rest = challenge.partition(" ")
        life_s = _MAX_LIFE_S
        value = self._authorization
        bring_token = scheme.lower() == "bearer" and (
            value is None or not value.startswith("Bearer ")
        )
        if bring_token:
            value, life_s = await self._token(repository, dict(_PARAMETER.findall(rest)))
        if value is not None:
            self._known[repository] = (value, self._clock_s() + life_s)
        return value

    def forget(self, repository: str) -> None:
        """Drops an Authorization that stopped working."""
        self._known.pop(repository, None)

    async def _token(self, repository: str, challenge: dict[str, str]) -> tuple[str, float]:
        # The scope is ours, not the one the challenge asks for: no token for more than reading.
        wanted = {"scope": f"repository:{repository}:pull"}
        if "service" in challenge:
            wanted["service"] = challenge["service"]
        try:
            realm = parse_web_address(challenge.get("realm", ""))
            joint = "&" if "?" in realm.target else "?"
            address = WebAddress(
                realm.scheme, realm.place, f"{realm.target}{joint}{urlencode(wanted)}"
            )
        except ValueError:
            raise faulty("it does not say where to get a token") from None
        async with self._http.get(address, {}, self._authorization) as reply:
            if reply.status != 200:
                raise self._http.failure(reply)
            body = await reply.read(_MAX_ANSWER_BYTES)
        try:
            document = parse_object(body, field="token")
        except AdapterRejectedError:
            raise faulty("its token is not JSON") from None
        token = document.get("token") or document.get("access_token")
        life_s = document.get("expires_in", _DEFAULT_LIFE_S)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise faulty("its token is malformed")
        if not isinstance(life_s, int | float) or not 0 < life_s < float("inf"):
            life_s = _DEFAULT_LIFE_S
        # Renewed a little early, so that it does not end on its way.
        return f"Bearer {token}", min(0.9 * life_s, _MAX_LIFE_S)
