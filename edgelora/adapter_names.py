"""The one name that no adapter can have."""

from __future__ import annotations

AUTO = "auto"
"""In the place of an adapter: the node's router chooses among the tenant's own."""
