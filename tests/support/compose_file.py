"""Reads docker-compose.yml as Compose does: variables filled in, merge keys applied."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-+])([^}]*))?\}")


def interpolated_text(variables=None):
    """The file's text with `${NAME:-default}` and `${NAME:+if set}` replaced.

    An unset name without either raises.
    """
    variables = variables or {}

    def fill(match):
        if match[2] == "+":
            return match[3] if variables.get(match[1]) else ""
        value = variables.get(match[1], match[3])
        if value is None:
            raise KeyError(match[1])
        return value

    return _VARIABLE.sub(fill, COMPOSE_FILE.read_text(encoding="utf-8"))


def load_compose(variables=None):
    """The file as a document, anchors and merge keys resolved."""
    return yaml.safe_load(interpolated_text(variables))
