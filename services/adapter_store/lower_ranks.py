"""Which lower-rank versions stand in for the adapters of a request. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.adapter_store.registry.manifest import AdapterManifest


def lower_ranks(
    asked: Sequence[AdapterManifest],
    max_rank: int,
    versions_of: Callable[[str], Sequence[AdapterManifest]],
) -> list[AdapterManifest]:
    """The adapters of one tenant's request, with versions in the place of those above a rank.

    `versions_of`: the tenant's versions of a digest, highest rank first. An adapter without a
    fitting one stays. So does one whose version the request names itself or has already got: a
    request uses an adapter once.
    """
    served: list[AdapterManifest] = []
    taken = {manifest.digest for manifest in asked}
    for manifest in asked:
        version = _version(manifest, max_rank, versions_of)
        if version is None or version.digest in taken:
            served.append(manifest)
            continue
        taken.add(version.digest)
        served.append(version)
    return served


def _version(
    manifest: AdapterManifest,
    max_rank: int,
    versions_of: Callable[[str], Sequence[AdapterManifest]],
) -> AdapterManifest | None:
    """The best version up to a rank; for a version, another one of its original."""
    content = manifest.content
    if content.rank <= max_rank:
        return None
    for version in versions_of(manifest.version_of_digest or manifest.digest):
        fits = version.content.base_digest == content.base_digest
        if fits and version.content.rank <= max_rank:
            return version
    return None
