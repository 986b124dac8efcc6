"""What a dialect calls the fields that the checks behind it name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from edgelora.errors import EdgeLoraError

Rename = Callable[[str], str]


def by_prefix(names: Mapping[str, str]) -> Rename:
    """Renames by the longest prefix: `{"options.sampling.": ""}` makes `top_p` of
    `options.sampling.top_p`."""
    ordered = sorted(names, key=len, reverse=True)

    def rename(field: str) -> str:
        for prefix in ordered:
            if field.startswith(prefix):
                return names[prefix] + field.removeprefix(prefix)
        return field

    return rename


@contextmanager
def renamed(rename: Rename) -> Iterator[None]:
    """Errors from within name the fields as the client wrote them, in text and field."""
    try:
        yield
    except EdgeLoraError as error:
        if error.field is not None:
            field = rename(error.field)
            error.message = error.message.replace(error.field, field)
            error.field = field
        raise
