"""Adapters of PEFT's through the real verification process: it says what reading them here says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edgelora.adapter_format import adapter_digest, parse_adapter_config
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from services.adapter_store.bases import ServedBases
from services.adapter_store.verification.verifier import Verifier
from tests.integration.parity.wild_formats import WILD
from tests.support.prepared_family import MAX_RANK, PreparedFamily, read
from tests.support.wild_adapters import CONFIG, WEIGHTS, write

pytestmark = pytest.mark.integration

NAMES = (
    "both patterns, rslora", "whole path beside a layer", "EVA", "PiSSA, converted A21",
    "mixed types Z04", "bfloat16 Z04", "bare decoder", "old trainer", "rank 64",
    "DoRA", "embedding LoRA", "regular expression", "megatron T09", "remote code T08",
    "AdaLoRA", "wider base", "8-bit floats", "NaN A15", "pickle renamed X09 T01", "compiled names",
)  # fmt: skip


async def test_verification_process_judges_as_the_reader_does_T01_T08_T09(tmp_path: Path):
    family = PreparedFamily("llama", tmp_path)
    verifier = Verifier(
        ServedBases(decoder=family.description), max_rank=MAX_RANK, timeout_s=60, max_concurrent=2
    )

    async def judge(name: str) -> tuple[str, object]:
        folder = tmp_path / name.replace(" ", "-")
        base = family.base_for(WILD[name].changes)
        directory = write(WILD[name], base, folder)
        try:
            expected: object = sorted(read(directory, family.description).pairs)
        except (AdapterRejectedError, AdapterIncompatibleError) as error:
            expected = (type(error), error.field, error.message)
        config, weights = directory / CONFIG, directory / WEIGHTS
        try:
            found = await verifier.verify(config, weights, None, folder / "encoded")
        except (AdapterRejectedError, AdapterIncompatibleError) as error:
            assert (type(error), error.field, error.message) == expected, name
            return name, error
        parsed = parse_adapter_config(config.read_bytes(), max_rank=MAX_RANK)
        assert found.digest == adapter_digest(parsed, weights.read_bytes()), name
        assert isinstance(expected, list), name
        assert set(found.target_modules) == {module for _, module in expected}, name
        return name, None

    outcomes = dict(await asyncio.gather(*(judge(name) for name in NAMES)))
    for name, error in outcomes.items():
        assert (error is None) == (WILD[name].refused is None), name
