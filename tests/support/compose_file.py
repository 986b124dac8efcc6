"""Reads docker-compose.yml as Compose does: variables filled in, merge keys applied."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def interpolated_text(variables=None):
    """The file's text with `${NAME:-default}` replaced; an unset name without default raises."""
    variables = variables or {}

    def fill(match):
        value = variables.get(match[1], match[2])
        if value is None:
            raise KeyError(match[1])
        return value

    return _VARIABLE.sub(fill, COMPOSE_FILE.read_text(encoding="utf-8"))


def load_compose(variables=None):
    """The file as a document, anchors and merge keys resolved."""
    return yaml.safe_load(interpolated_text(variables))
