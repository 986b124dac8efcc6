"""The real model of the tests: prepared once, shared by everybody."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from edgelora.toolchain.prepare import DEFAULT_NAME, prepare
from services.chassis.base_model import FORMS

ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The home directory of the tests: EDGELORA_HOME, or .edgelora in the checkout."""
    return Path(os.environ.get("EDGELORA_HOME") or ROOT / ".edgelora")


def prepared_model() -> Path:
    """Directory of the default model, in every form this machine can use; prepared if need be."""
    directory = home() / "models" / DEFAULT_NAME
    weights = "both" if find_spec("edgelora_native") else "float32"
    wanted = FORMS.values() if weights == "both" else [FORMS[weights]]
    if not all((directory / file).is_file() for file in wanted):
        prepare(home=home(), weights=weights)
    return directory
