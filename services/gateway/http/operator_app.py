"""What the operator reaches over HTTP: the dashboard."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp


def operator_app() -> ASGIApp:
    """The dashboard and what it reads."""
    return Starlette(routes=[])
