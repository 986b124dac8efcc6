"""Where a training run leaves its result, and its checkpoints until it is done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.published_directory import published_directory

_RESULT_FILES = ("README.md", "report.json")
"""Every result has them; what has not is nobody's to replace."""


@dataclass(frozen=True, slots=True)
class TrainingPlaces:
    """The directories of a run."""

    result: Path
    """Empty; becomes the output when all is done."""
    checkpoints: Path
    """Of this run, or of the one to go on with; may not be there yet."""


@contextmanager
def training_output(
    output: Path, inputs: Sequence[Path | None], *, replace: bool, resume: bool
) -> Iterator[TrainingPlaces]:
    """Publishes `output` at once when the block ends well, and removes the checkpoints then.

    `inputs`: files the run reads. Raises ToolchainError when `output` or an unfinished run is
    there and neither `replace` nor `resume` says what to do, when `replace` would remove what no
    training made or an input, and while another process trains the same `output`.
    """
    if output.exists():
        check_replaced(output, inputs, replace=replace)
    with published_directory(output) as directory:
        unfinished = unfinished_run(output)
        if unfinished.exists() and not resume:
            if not replace:
                raise ToolchainError(
                    f"an unfinished training of {output.name!r} is there: go on with --resume, or "
                    "start over with --replace"
                )
            shutil.rmtree(unfinished)
        yield TrainingPlaces(directory, unfinished)
    shutil.rmtree(unfinished, ignore_errors=True)


def unfinished_run(output: Path) -> Path:
    """Where the checkpoints of a training lie until it is done."""
    return output.with_name(f".{output.name}.training")


def check_replaced(output: Path, inputs: Sequence[Path | None], *, replace: bool) -> None:
    """Raises ToolchainError for an `output` that is there and is not to be replaced."""
    if not replace:
        raise ToolchainError(
            f"output {output.name!r} exists: choose another, or replace it with --replace"
        )
    is_result = output.is_dir() and (
        all((output / name).is_file() for name in _RESULT_FILES) or not any(output.iterdir())
    )
    if not is_result:
        raise ToolchainError(
            f"output {output.name!r} is no result of a training, so it is not replaced: choose "
            "another"
        )
    place = output.resolve()
    if any(path is not None and path.resolve().is_relative_to(place) for path in inputs):
        raise ToolchainError(
            f"the data lie in the output {output.name!r}, which would be replaced: move them out"
        )
