"""The versions of a trained adapter: cut to lower ranks, or with a rank for each module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import safetensors.numpy

from edgelora.adapter_format.rank_allocation import adapter_of_ranks, allocate_ranks, spectra
from edgelora.adapter_format.rank_cut import Matrix, RankCut, cut_adapter
from edgelora.adapter_format.tensor_file import read_tensors
from edgelora.toolchain.lora_model import CONFIG_FILE, WEIGHTS_FILE
from edgelora.toolchain.rank_plan import RankPlan

Origin = Literal["trained", "cut", "allocated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One adapter of a run."""

    name: str
    """For people, such as `rank 32`."""
    directory: Path
    rank: int
    """The largest of any module."""
    origin: Origin
    relative_error: float | None = None
    """Norm of what the cut took from the updates, over their norm; None for what was trained."""
    is_kept: bool = True
    """Whether it belongs to the result, or is only measured beside it."""


def rank_directory(directory: Path, rank: int) -> Path:
    """Where the version of a lower rank lies."""
    return directory / f"rank-{rank}"


def allocated_version(directory: Path, trained: Path, budget: int) -> Version:
    """Writes into `directory` the adapter in `trained` with the ranks that a budget of
    parameters allows."""
    config, weights = _files(trained)
    cut = adapter_of_ranks(config, weights, allocate_ranks(spectra(config, weights), budget))
    _write(directory, cut)
    return Version(
        name="rank auto",
        directory=directory,
        rank=cut.rank,
        origin="allocated",
        relative_error=cut.relative_error,
    )


def cut_versions(directory: Path, own_rank: int, plan: RankPlan) -> Iterator[Version]:
    """Writes the versions of lower ranks of the adapter in `directory`, each below it.

    A rank that is not lower than the adapter's own is left out: the adapter itself serves there.
    """
    config, weights = _files(directory)
    for rank in plan.lower:
        if rank >= own_rank:
            continue
        cut = cut_adapter(config, weights, rank)
        target = rank_directory(directory, rank)
        target.mkdir()
        _write(target, cut)
        yield Version(
            name=f"rank {rank}",
            directory=target,
            rank=rank,
            origin="cut",
            relative_error=cut.relative_error,
        )


def copy_probe(name: str, directory: Path, versions: list[Version]) -> None:
    """Gives every version the adapter's probe, if it has one."""
    for version in versions:
        is_other = version.is_kept and version.directory != directory
        if is_other and (directory / name).is_file():
            shutil.copyfile(directory / name, version.directory / name)


def num_parameters(directory: Path) -> int:
    """Of an adapter's weights."""
    tensors = safetensors.numpy.load_file(directory / WEIGHTS_FILE)
    return sum(tensor.size for tensor in tensors.values())


def energy_by_kind(directory: Path) -> dict[str, list[float]]:
    """Share of the update's energy that each rank from 1 keeps, over all layers, by kind of module.

    For example `q_proj`: [0.31, 0.44, ...].
    """
    energies: dict[str, list[Matrix]] = {}
    for path, spectrum in spectra(*_files(directory)).items():
        energies.setdefault(path.rsplit(".", 1)[-1], []).append(np.square(spectrum.values))
    shares = {}
    for kind, of_layers in energies.items():
        kept = np.cumsum(np.sum(of_layers, axis=0))
        shares[kind] = [round(float(one), 4) for one in kept / (kept[-1] or 1.0)]
    return shares


def _files(directory: Path) -> tuple[bytes, bytes]:
    return (directory / CONFIG_FILE).read_bytes(), (directory / WEIGHTS_FILE).read_bytes()


def _write(directory: Path, cut: RankCut) -> None:
    """Both files, the weights in fp16 as training writes them."""
    half = {name: values.astype(np.float16) for name, values in read_tensors(cut.weights).items()}
    safetensors.numpy.save_file(half, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    (directory / CONFIG_FILE).write_bytes(cut.config + b"\n")
