"""The states between two layers are whole on disk, or an error says that they are not."""

from __future__ import annotations

import os

import pytest
import torch

from edgelora.toolchain.quantisation import hidden_states
from edgelora.toolchain.quantisation.hidden_states import HiddenStates


def test_what_a_full_disk_takes_in_part_is_written_to_its_end(monkeypatch) -> None:
    write = os.pwritev
    monkeypatch.setattr(
        hidden_states.os,
        "pwritev",
        lambda file, pieces, place: write(file, [pieces[0][:100]], place),
    )
    states = torch.randn(3, 16, 8)
    with HiddenStates(3, 16, 8) as kept:
        kept.write(slice(0, 3), states)
        assert torch.equal(kept.read(slice(0, 3)), states)


def test_states_that_are_not_there_are_no_numbers() -> None:
    with HiddenStates(3, 16, 8) as kept:
        kept.write(slice(0, 2), torch.randn(2, 16, 8))
        with pytest.raises(OSError, match="is cut"):
            kept.read(slice(0, 3))
