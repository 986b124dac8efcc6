"""Whether the package of the native core is there and whole."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

_PACKAGE = "edgelora_native"
_PARTS = (_PACKAGE, *(f"{_PACKAGE}.{one}" for one in ("packing", "encoder", "encoder_packing")))
_INTERFACE = 7
_DAMAGES = (ImportError, OSError, AttributeError, SyntaxError, ValueError)
"""What importing a package raises of which a file is missing, cut or of another kind."""


def native_core_obstacle() -> str | None:
    """Imports the package. Returns why it can not be used, None when it can."""
    if find_spec(_PACKAGE) is None:
        return "the native core is not installed: run `make native`, it needs a C++ compiler"
    try:
        for part in _PARTS:
            import_module(part)
        import_module(_PACKAGE).instruction_set  # noqa: B018 - that it is there
    except _DAMAGES:
        return "the native core is damaged: run `make native`"
    if getattr(import_module(_PACKAGE), "INTERFACE", None) != _INTERFACE:
        return "the native core is of another release: run `make native`"
    return None
