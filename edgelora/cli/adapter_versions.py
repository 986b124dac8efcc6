"""Lower-rank versions of an adapter directory: those kept in it, or cut before anything is sent."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from edgelora.adapter_upload import FILE_NAMES, HEAD_NAME, PROBE_NAME

_MAX_VERSIONS = 16
"""As many as a node keeps of one adapter."""


def parse_ranks(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    """Ranks with commas between them, such as 16,32; highest first. For a click option."""
    if value is None:
        return ()
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):
        raise click.BadParameter("give whole numbers with commas between them, such as 16,32")
    ranks = tuple(sorted({int(part) for part in parts}, reverse=True))
    if len(ranks) > _MAX_VERSIONS:
        raise click.BadParameter(f"an adapter has at most {_MAX_VERSIONS} lower-rank versions")
    return ranks


@dataclass(frozen=True, slots=True)
class LowerVersion:
    """A version, as a directory to upload."""

    rank: int
    directory: Path
    relative_error: float | None
    """Norm of what its updates lost, over the norm of the adapter's; 0 to 1. None for one that was
    kept beside the adapter."""


def kept_versions(directory: Path) -> list[LowerVersion]:
    """The versions that training left in an adapter's directory, `rank-32` and so on.

    Highest rank first.
    """
    found = []
    for place in directory.glob("rank-*"):
        rank = place.name.removeprefix("rank-")
        is_version = all((place / name).is_file() for name in FILE_NAMES)
        if is_version and rank.isascii() and rank.isdigit() and len(rank) <= 4:
            found.append(LowerVersion(int(rank), place, None))
    return sorted(found, key=lambda version: -version.rank)


def cut_versions(directory: Path, ranks: Sequence[int], place: Path) -> list[LowerVersion]:
    """Cuts an adapter directory to ranks, each into a directory of its own below `place`.

    Probe and head go with them, the card does not: a version stands in for its adapter alone.
    Raises AdapterRejectedError for what can not be cut, InvalidRequestError for a rank that is not
    lower.
    """
    if not ranks:
        return []
    # Only now: adding an adapter as it is takes no numpy.
    from edgelora.adapter_format.rank_cut import cut_adapter

    config, weights = ((directory / name).read_bytes() for name in FILE_NAMES)
    versions = []
    for rank in ranks:
        cut = cut_adapter(config, weights, rank)
        version = place / f"{directory.name}-rank-{rank}"
        version.mkdir()
        for name, data in zip(FILE_NAMES, (cut.config, cut.weights), strict=True):
            (version / name).write_bytes(data)
        for name in (PROBE_NAME, HEAD_NAME):
            if (directory / name).is_file():
                shutil.copyfile(directory / name, version / name)
        versions.append(LowerVersion(rank, version, cut.relative_error))
    return versions
