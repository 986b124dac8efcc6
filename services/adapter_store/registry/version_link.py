"""Which adapter may be a lower-rank version of which. Pure."""

from __future__ import annotations

from edgelora.errors import InvalidRequestError
from services.adapter_store.registry.manifest import AdapterContent, AdapterManifest


def check_link(original: AdapterManifest, version: AdapterContent, *, has_versions: bool) -> None:
    """Raises InvalidRequestError unless an adapter can be a version of one of the same tenant.

    There are no chains: versions belong to the adapter they were all cut from. `has_versions`:
    whether the version has some of its own.
    """
    if original.version_of_digest is not None:
        raise _refuse("it is a lower-rank version itself: name the adapter it was cut from")
    if has_versions:
        raise _refuse("the adapter has lower-rank versions of its own: remove those first")
    if original.content.base_digest != version.base_digest:
        raise _refuse("it was registered for another base model: register it again first")
    if version.rank >= original.content.rank:
        raise _refuse(
            f"it has rank {original.content.rank}: a version has a lower one, not {version.rank}"
        )


def _refuse(why: str) -> InvalidRequestError:
    return InvalidRequestError(f"version_of_digest: {why}", field="version_of_digest")
