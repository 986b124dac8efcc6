"""What tenants may type: aliases, descriptions, selections. Pure checks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgelora.adapter_format import is_digest
from edgelora.adapter_names import AUTO
from edgelora.errors import AdapterNotFoundError, InvalidRequestError

MAX_DESCRIPTION_CHARS = 500
MAX_ADAPTERS_PER_REQUEST = 4
MAX_STRENGTH = 2.0

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BARE_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_WORKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


@dataclass(frozen=True, slots=True)
class Selection:
    """One adapter a request asks for."""

    adapter: str
    """Alias or digest."""
    strength: float


def is_alias(text: str) -> bool:
    """Whether a text may name an adapter. Never part of a path."""
    return _ALIAS.fullmatch(text) is not None and _BARE_DIGEST.fullmatch(text) is None


def is_worker_name(text: str) -> bool:
    """Whether a text may name a worker."""
    return _WORKER.fullmatch(text) is not None


def check_alias(text: str, reserved: Collection[str]) -> None:
    """Raises InvalidRequestError unless a text may become an alias.

    `reserved` are the names of the base models, which always mean a base model alone.
    """
    if not is_alias(text):
        raise InvalidRequestError(
            "an alias has 1 to 64 letters, digits, dots, underscores and hyphens, starts with a "
            "letter or digit, and does not look like a digest",
            field="alias",
        )
    if text in reserved:
        raise InvalidRequestError(
            "this name belongs to a base model: choose another alias", field="alias"
        )
    if text == AUTO:
        raise InvalidRequestError(
            f"{AUTO} leaves the choice to the router: choose another alias", field="alias"
        )


def check_description(text: str) -> None:
    """Raises InvalidRequestError unless a text may describe an adapter."""
    if len(text) > MAX_DESCRIPTION_CHARS or "\0" in text:
        raise InvalidRequestError(
            f"a description has at most {MAX_DESCRIPTION_CHARS} characters and no NUL",
            field="description",
        )


def check_selections(selections: Sequence[Selection]) -> None:
    """Raises InvalidRequestError for too many, repeated, unroutable or overdriven selections."""
    if len(selections) > MAX_ADAPTERS_PER_REQUEST:
        raise InvalidRequestError(
            f"a request may use at most {MAX_ADAPTERS_PER_REQUEST} adapters", field="adapters"
        )
    for index, selection in enumerate(selections):
        if not selection.adapter:
            raise InvalidRequestError(
                "the adapter is empty: give an alias or a digest, or no entry for the base model",
                field=f"adapters[{index}].adapter",
            )
        if selection.adapter == AUTO:
            # Also where an alias of that name is left from before it was reserved.
            raise InvalidRequestError(
                f"{AUTO} leaves the choice to the router, and is no adapter's name: "
                "give the adapter another alias",
                field=f"adapters[{index}].adapter",
            )
        # NaN fails the comparison too.
        if not 0.0 <= selection.strength <= MAX_STRENGTH or not math.isfinite(selection.strength):
            raise InvalidRequestError(
                f"the strength has to be a number from 0 to {MAX_STRENGTH:g}",
                field=f"adapters[{index}].strength",
            )


def check_distinct(digests: Sequence[str]) -> None:
    """Raises InvalidRequestError when two selections turned out to be one adapter."""
    for index, digest in enumerate(digests):
        if digest in digests[:index]:
            field = f"adapters[{index}].adapter"
            raise InvalidRequestError(
                f"{field} names an adapter again: give each once, with its whole strength",
                field=field,
            )


def is_reference(text: str) -> bool:
    """Whether a text has the form of an alias or a digest, so that it can be looked up."""
    return is_digest(text) or is_alias(text)


def adapter_not_found(field: str) -> AdapterNotFoundError:
    """The one answer for unknown, deleted and foreign adapters alike."""
    return AdapterNotFoundError(
        f"you have no such adapter ({field}): `edgelora adapters list --tenant NAME` shows yours",
        field=field,
    )
