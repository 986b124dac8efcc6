"""A config with any field changed to anything is refused, or means to us what it means to PEFT.

The adapter is PEFT's own. What is not refused is loaded by PEFT too, and the answers are compared,
within 1e-4 of logits that span about 10. Fields about training, and those that hold nothing, may be
left out for PEFT: it has its own opinion of them, and they change no answer.
EDGELORA_CONFIG_FUZZ_ROUNDS=N (`make config-fuzz`) takes the long list of values, and then changes
two or three fields at once N times.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from services.inference.backends.torch_backend import TorchBackend
from tests.support.config_mutations import LONG, SHORT, Mutation, mutations
from tests.support.prepared_family import PreparedFamily, adapted_by_peft, expected_logits, read
from tests.support.wild_adapters import CONFIG, Wild, write

pytestmark = pytest.mark.integration

TOLERANCE = 1e-4
ROUNDS = int(os.environ.get("EDGELORA_CONFIG_FUZZ_ROUNDS", "0"))
OF_TRAINING = {
    "base_model_name_or_path", "revision", "peft_version", "task_type", "inference_mode",
    "lora_dropout", "init_lora_weights", "eva_config",
}  # fmt: skip

EMPTY = ("", [], {}, {"a": None}, {"q_proj": None})


class Judge:
    """One adapter of PEFT's, whose config is changed."""

    def __init__(self, root: Path) -> None:
        self.family = PreparedFamily("llama", root)
        options = {"target_modules": ["q_proj", "v_proj"], "r": 8, "lora_alpha": 16}
        self.directory = write(Wild(options=options), self.family.model, root / "adapter")
        self.config: dict[str, Any] = json.loads((self.directory / CONFIG).read_text())
        self.num_refused = self.num_served = 0

    def judge(self, *changes: Mutation) -> None:
        """Fails unless the changed adapter is refused in words, or answers as PEFT does."""
        data = self._changed(changes)
        (self.directory / CONFIG).write_bytes(data)
        try:
            adapter = read(self.directory, self.family.description)
        except (AdapterRejectedError, AdapterIncompatibleError) as error:
            self.num_refused += 1
            assert error.field, changes
            assert error.message.isprintable(), changes
            assert "evil" not in error.message, changes
            assert len(error.message) < 600, changes
            return
        self.num_served += 1
        actual = self.family.logits(TorchBackend, adapter)
        expected = self._expected(changes)
        assert np.abs(actual - expected).max() < TOLERANCE, changes

    def _expected(self, changes: tuple[Mutation, ...]) -> np.ndarray:
        kept = tuple(
            change
            for change in changes
            if change.field not in OF_TRAINING and not holds_nothing(change.value)
        )
        (self.directory / CONFIG).write_bytes(self._changed(kept))
        return expected_logits(adapted_by_peft(self.family.model, self.directory, False))

    def _changed(self, changes: tuple[Mutation, ...]) -> bytes:
        config = dict(self.config)
        for change in changes[:-1]:
            config[change.field] = change.value
        return changes[-1].applied_to(config) if changes else json.dumps(config).encode()


def holds_nothing(value: Any) -> bool:
    """Whether a value says what leaving the field out says."""
    return value is None or value is False or any(value == empty for empty in EMPTY)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Judge(tmp_path_factory.mktemp("llama"))
    torch.set_num_threads(before)


@pytest.mark.timeout(3600 if ROUNDS else 120)
def test_any_value_of_any_field_is_refused_or_means_what_it_means_to_peft_A07_A11_T03(judge: Judge):
    for mutation in mutations(LONG if ROUNDS else SHORT):
        judge.judge(mutation)
    assert judge.num_refused > 500
    assert judge.num_served > 100


@pytest.mark.timeout(36000 if ROUNDS else 120)
def test_several_fields_at_once_are_refused_or_mean_what_they_mean_to_peft(judge: Judge):
    rng = random.Random(ROUNDS)
    every = list(mutations(LONG))
    for _ in range(ROUNDS or 200):
        chosen = rng.sample(every, rng.choice((2, 3)))
        if len({mutation.field for mutation in chosen}) == len(chosen):
            judge.judge(*chosen)
