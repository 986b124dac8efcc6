"""Every adapter of the table, made by PEFT, read as an upload is: PEFT's answers, or the reason.

The torch back end is held to transformers + PEFT within 1e-4 of logits that span about 10, in
float32. The native core is held to PEFT's own merge into the weights its packed file stands for,
with its roundings, within 5 % in relative norm in the mean: it keeps factors in 8 bit, so about
2.5 % is usual, and more where a converted adapter takes away most of what it adds.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from edgelora.adapter_upload import FILE_NAMES
from edgelora.errors import AdapterIncompatibleError, AdapterRejectedError
from services.inference.backends.native_backend import NativeBackend
from services.inference.backends.torch_backend import TorchBackend
from tests.integration.parity.wild_formats import WILD
from tests.support.prepared_family import PreparedFamily, adapted_by_peft, expected_logits, read
from tests.support.wild_adapters import write

pytestmark = pytest.mark.integration

TORCH_TOLERANCE = 1e-4
NATIVE_TOLERANCE = 0.05
SERVED = [name for name, wild in WILD.items() if wild.refused is None]
REFUSED = [name for name, wild in WILD.items() if wild.refused is not None]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreparedFamily]:
    families = sorted({wild.family for wild in WILD.values()})
    return {family: PreparedFamily(family, tmp_path_factory.mktemp(family)) for family in families}


def test_the_table_is_large_enough_and_has_both_outcomes() -> None:
    assert len(WILD) >= 40
    assert len(SERVED) >= 20
    assert len(REFUSED) >= 20
    assert {wild.family for wild in WILD.values()} == {"llama", "mistral", "qwen2", "qwen3"}


@pytest.mark.parametrize("name", SERVED)
def test_answers_in_a_slot_used_before_equal_peft_A14(
    name: str, bases: dict[str, PreparedFamily], tmp_path: Path
) -> None:
    wild = WILD[name]
    base = bases[wild.family]
    directory = write(wild, base.model, tmp_path / "adapter")
    adapter = read(directory, base.description)
    expected = expected_logits(adapted_by_peft(base.model, directory, wild.is_bare_decoder))
    effect = np.abs(expected - expected_logits(base.model)).max()
    assert effect > 1000 * TORCH_TOLERANCE
    assert np.abs(base.logits(TorchBackend, adapter) - expected).max() < TORCH_TOLERANCE


@pytest.mark.parametrize("name", SERVED)
def test_answers_over_a_packed_base_equal_peft_Z03(
    name: str, bases: dict[str, PreparedFamily], tmp_path: Path
) -> None:
    pytest.importorskip("edgelora_native", reason="run `make native` first")
    from tests.support import rounded_model as rounded

    wild = WILD[name]
    base = bases[wild.family]
    directory = write(wild, base.model, tmp_path / "adapter")
    model = copy.deepcopy(base.model)
    rounded.load_packed(model, base.directory / "model.edgelora")
    adapted = adapted_by_peft(model, directory, wild.is_bare_decoder)
    for each in (model, adapted):
        rounded.round_as_the_core(each)
    expected = expected_logits(adapted)
    actual = base.logits(NativeBackend, read(directory, base.description))
    norms = np.linalg.norm(expected, axis=1)
    errors = np.linalg.norm(actual - expected, axis=1) / norms
    effects = np.linalg.norm(expected_logits(model) - expected, axis=1) / norms
    assert errors.mean() < NATIVE_TOLERANCE
    assert effects.mean() > 2 * NATIVE_TOLERANCE


@pytest.mark.parametrize("name", REFUSED)
def test_refused_for_the_right_reason(
    name: str, bases: dict[str, PreparedFamily], tmp_path: Path
) -> None:
    wild = WILD[name]
    base = bases[wild.family]
    directory = write(wild, base.base_for(wild.changes), tmp_path / "adapter")
    modules = set(sys.modules)
    with pytest.raises((AdapterRejectedError, AdapterIncompatibleError)) as caught:
        read(directory, base.description)
    assert wild.refused is not None
    assert caught.value.field == wild.refused.field
    for word in wild.refused.words:
        assert word in caught.value.message
    assert {"evil", "this"}.isdisjoint(set(sys.modules) - modules)


@pytest.mark.parametrize("name", ["template and tokenizer beside X08 T38", "pickle beside X09 T01"])
def test_files_beside_the_adapter_are_never_looked_at_X08_T38_T01(
    name: str,
    bases: dict[str, PreparedFamily],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = write(WILD[name], bases["llama"].model, tmp_path / "adapter")
    opened: set[Path] = set()
    events: set[str] = set()
    is_watching = True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_watching:
            events.add(event)
            if event == "open" and isinstance(arguments[0], (str, Path)):
                opened.add(Path(arguments[0]))

    sys.addaudithook(note)  # stays for good, so it is switched off
    read(directory, bases["llama"].description)
    is_watching = False
    assert {path.name for path in opened if path.parent == directory} == set(FILE_NAMES)
    assert events.isdisjoint({"pickle.find_class", "exec", "compile", "os.system", "os.exec"})
    assert not (tmp_path / "pwn-canary").exists()
