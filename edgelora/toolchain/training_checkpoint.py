"""The state of an unfinished training run: a file that is written at once, or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from edgelora.toolchain.errors import ToolchainError, refusing

State = dict[str, Any]
"""Tensors, numbers, texts, and lists and dictionaries of them."""


def refusing_damaged() -> AbstractContextManager[None]:
    """Turns whatever a state that is not what was saved brings about into a ToolchainError."""
    return refusing("the checkpoint of the unfinished run is damaged: start over with --replace")


class CheckpointFile:
    """Where one run keeps its state between two starts of the process.

    `identity`: what makes the run the one it is, by name; a state of another run is refused.
    """

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        self._path = path
        self._identity = dict(identity)

    def load(self) -> State | None:
        """The last state that was saved; None when there is none.

        Raises ToolchainError for a damaged file, and for the state of another run, naming what is
        different.
        """
        if not self._path.is_file():
            return None
        with refusing_damaged():
            # Tensors and plain values: nothing in the file is run.
            state: State = torch.load(self._path, map_location="cpu", weights_only=True)
            identity = dict(state.pop("identity"))
            differing = [
                name.replace("_", " ")
                for name, value in self._identity.items()
                if identity.get(name) != value
            ]
            if not differing and identity != self._identity:
                raise ValueError("names of another release")
        if differing:
            raise ToolchainError(
                f"the unfinished run had another {', '.join(differing)}: give the same again, or "
                "start over with --replace"
            )
        return state

    def save(self, state: State) -> None:
        """Replaces the last state; after a loss of power one of the two is there, whole."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(self._path.name + ".partial")
        try:
            with partial.open("wb") as file:
                torch.save({**state, "identity": self._identity}, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        except BaseException:
            partial.unlink(missing_ok=True)  # a full disk needs the room
            raise
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
