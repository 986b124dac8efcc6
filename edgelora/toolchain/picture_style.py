"""How the pictures of reports look, for matplotlib's rc_context."""

from __future__ import annotations

from typing import Any

STYLE: dict[str, Any] = {
    "svg.hashsalt": "edgelora",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e8f0",
    "axes.axisbelow": True,
}
