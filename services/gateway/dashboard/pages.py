"""The pages and what belongs to them, read once at the start; nothing else is served."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

STATIC_PREFIX = "/static/"
LOGIN_NEEDS = frozenset(
    {f"{STATIC_PREFIX}{name}" for name in ("style.css", "theme.js", "icon.svg")}
)
"""What the login page needs, and therefore anybody may have."""
_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
_REFUSED = "The key is not right."
_MESSAGE_PLACE = b"<!-- message -->"


class Pages:
    """Files of the package's `static` folder, by name."""

    def __init__(self) -> None:
        self._contents = {
            entry.name: entry.read_bytes()
            for entry in files(__package__).joinpath("static").iterdir()
            if entry.is_file()
        }

    def login(self, *, is_refused: bool = False) -> Response:
        """The login page, with a word about a wrong key."""
        message = f'<p class="message" role="alert">{_REFUSED}</p>' if is_refused else ""
        content = self._contents["login.html"].replace(_MESSAGE_PLACE, message.encode())
        return Response(content, status_code=403 if is_refused else 200, media_type=_TYPES[".html"])

    def page(self, name: str) -> Response:
        """A page by its file's name."""
        return Response(self._contents[name], media_type=_TYPES[".html"])

    async def static(self, request: Request) -> Response:
        """GET /static/NAME; the browser asks again each time and gets it when it has changed."""
        name = request.path_params["name"]
        content = self._contents.get(name)
        if content is None or name.endswith(".html"):
            return Response("not found", status_code=404, media_type="text/plain")
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=_TYPES[name[name.rindex(".") :]], headers=headers)
