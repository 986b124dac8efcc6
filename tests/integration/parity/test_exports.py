"""What we export computes in PEFT and in llama.cpp what the adapter computed before.

llama.cpp is the one the benchmarks compare with (`make bench-peers PEERS=llama.cpp`); its logits
are held to PEFT's within 1e-4 of logits that span about 12, in float32. Without it the factors in
the file are added to the base model's own GGUF tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from bench.peers.roster import contenders
from edgelora.toolchain.adapter_export import export_gguf, export_peft, read_local_adapter
from services.inference.backends.torch_backend import TorchBackend
from tests.integration.parity.wild_formats import ALL, WILD
from tests.support.prepared_family import (
    PREFILLED,
    PROMPT,
    PreparedFamily,
    adapted_by_peft,
    expected_logits,
    read,
)
from tests.support.tiny_families import HEAD_DIM, NUM_HEADS, save_gguf
from tests.support.wild_adapters import Wild, write

pytestmark = pytest.mark.integration

TOLERANCE = 1e-4
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
HIDDEN = NUM_HEADS * HEAD_DIM
"""llama.cpp knows no other of Qwen2."""
EVERY_OPTION = {
    "target_modules": ALL,
    "use_rslora": True,
    "lora_alpha": 3,
    "rank_pattern": {"k_proj": 17, "layers.0.mlp.up_proj": 2},
    "alpha_pattern": {"k_proj": 9, "down_proj": 1},
}
AS_FOUND = (
    "whole path beside a layer",
    "layers and their pattern",
    "exclusion by path",
    "mixed types Z04",
    "name inside the keys",
    "bare decoder",
    "newer trainer A07",
    "sum of two",
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreparedFamily]:
    return {
        family: PreparedFamily(family, tmp_path_factory.mktemp(family), hidden_size=HIDDEN)
        for family in FAMILIES
    }


@pytest.fixture(scope="module")
def adapters(
    bases: dict[str, PreparedFamily], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Family -> an adapter with every option that decides about scalings."""
    found = {}
    for family, base in bases.items():
        place = tmp_path_factory.mktemp("adapter") / family
        found[family] = write(Wild(family=family, options=EVERY_OPTION), base.model, place)
    return found


def gguf_tensors(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize("family", FAMILIES)
def test_factors_added_to_the_gguf_of_the_base_are_peft_s_merge(
    family: str, bases: dict[str, PreparedFamily], adapters: dict[str, Path], tmp_path: Path
) -> None:
    base = bases[family]
    save_gguf(base.model, tmp_path / "base.gguf")
    save_gguf(adapted_by_peft(base.model, adapters[family], False), tmp_path / "merged.gguf")
    export_gguf(read_local_adapter(adapters[family], base.directory), tmp_path / "lora.gguf")
    alpha = gguf.GGUFReader(tmp_path / "lora.gguf").fields["adapter.lora.alpha"].contents()
    lora, weights = gguf_tensors(tmp_path / "lora.gguf"), gguf_tensors(tmp_path / "base.gguf")
    merged = gguf_tensors(tmp_path / "merged.gguf")
    changed = {name for name in merged if not np.array_equal(merged[name], weights[name])}
    assert {f"{name}.lora_{end}" for name in changed for end in "ab"} == lora.keys()
    for name in changed:
        factor_a, factor_b = lora[f"{name}.lora_a"], lora[f"{name}.lora_b"]
        actual = weights[name] + alpha / len(factor_a) * factor_b @ factor_a
        assert np.abs(actual - merged[name]).max() < 1e-5, name


@pytest.mark.parametrize("family", FAMILIES)
def test_llama_cpp_computes_what_peft_computes(
    family: str, bases: dict[str, PreparedFamily], adapters: dict[str, Path], tmp_path: Path
) -> None:
    llama = contenders(["llama.cpp"])[1]
    if llama.missing:
        pytest.skip(f"llama.cpp: {llama.missing}")
    base = bases[family]
    save_gguf(base.model, tmp_path / "base.gguf")
    export_gguf(read_local_adapter(adapters[family], base.directory), tmp_path / "lora.gguf")
    found = []
    with llama.start(tmp_path) as process:
        process.ask(
            "load",
            gguf=str(tmp_path / "base.gguf"),
            adapters=[str(tmp_path / "lora.gguf")],
            threads=1,
            max_streams=1,
            max_tokens=len(PROMPT),
            exact=True,
        )
        for adapter in (0, None):
            target = tmp_path / f"{adapter}.npy"
            prompt = [int(token) for token in PROMPT]
            process.ask("logits", prompt=prompt, adapter=adapter, target=str(target))
            found.append(np.load(target)[PREFILLED - 1 :])
    adapted = expected_logits(adapted_by_peft(base.model, adapters[family], False))
    plain = expected_logits(base.model)
    assert np.abs(found[0] - adapted).max() < TOLERANCE
    assert np.abs(found[1] - plain).max() < TOLERANCE
    assert np.abs(adapted - plain).max() > 1000 * TOLERANCE


@pytest.mark.parametrize("name", AS_FOUND)
def test_a_peft_directory_of_ours_is_what_peft_had_written(
    name: str, bases: dict[str, PreparedFamily], tmp_path: Path
) -> None:
    wild = WILD[name]
    base = bases[wild.family]
    source = write(wild, base.model, tmp_path / "adapter")
    export_peft(read_local_adapter(source, base.directory), tmp_path / "exported")
    models: list[Any] = [
        adapted_by_peft(base.model, directory, wild.is_bare_decoder)
        for directory in (source, tmp_path / "exported")
    ]
    expected, actual = (expected_logits(model) for model in models)
    assert np.abs(actual - expected).max() < 1e-5
    served = base.logits(TorchBackend, read(tmp_path / "exported", base.description))
    assert np.abs(served - expected).max() < TOLERANCE
    assert np.abs(expected - expected_logits(base.model)).max() > 1000 * TOLERANCE
