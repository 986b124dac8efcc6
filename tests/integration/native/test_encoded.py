"""Encoded adapters in slots of the native core, against an independent reading of the format."""

import json

import numpy as np
import pytest

from tests.support import native_core
from tests.support.encoded_adapters import encoded_for, read_slowly

pytestmark = pytest.mark.timeout(600)  # compiles

FAMILIES = ["llama", "qwen"]


@pytest.mark.parametrize("variant", ["release", "aarch64"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("max_rank", [2, 6, 16, 33])
def test_a_slot_holds_what_the_file_means(build, models, tmp_path, variant, family, max_rank):
    data = encoded_for(family, max_rank, seed=max_rank)
    file, output = tmp_path / "encoded", tmp_path / "slot"
    file.write_bytes(data)
    reason = native_core.check(
        build(variant), "encoded", models / f"{family}.edgelora", file, output
    )
    if reason is not None:
        pytest.skip(reason)
    factors = read_slowly(data)
    assert max(len(lora_a) for lora_a, _, _ in factors.values()) == max_rank
    expected = [
        np.concatenate([[scaling], lora_a.ravel(), lora_b.ravel()]).astype(np.float32)
        for lora_a, lora_b, scaling in factors.values()
    ]
    np.testing.assert_array_equal(np.fromfile(output, np.float32), np.concatenate(expected))


@pytest.mark.parametrize("family", FAMILIES)
def test_damaged_files_are_refused_or_harmless(build, models, tmp_path, family):
    file = tmp_path / "encoded"
    file.write_bytes(encoded_for(family, 9))
    model = models / f"{family}.edgelora"
    assert native_core.check(build("release"), "damaged", model, file) is None


LOGITS = """
import json, pathlib, sys
import numpy as np
import edgelora_native as n
from tests.support.encoded_adapters import encoded_for, read_slowly
model = pathlib.Path(sys.argv[1])
engine = n.Engine(model, n.Limits(num_kv_blocks=1, max_loras=2, max_lora_rank=33,
                                  max_step_tokens=8, num_threads=2))
data = encoded_for(model.stem, 33, has_only_ends=True)
factors = [n.AdapterFactors(layer, module, *values)
           for (layer, module), values in read_slowly(data).items()]
sizes = [engine.load_encoded(0, data), engine.load_adapter(1, factors)]
def logits(*adapters):
    return engine.forward([n.Chunk(token_ids=np.arange(5, dtype=np.int32), start_position=0,
                                   block_table=[0], adapters=adapters, needs_logits=True)])
one, two, base = logits((0, 1.0)), logits((1, 1.0)), logits()
said = ""
try:
    engine.load_encoded(0, b"")
except n.NativeError as error:
    said = str(error)
print(json.dumps([sizes, bool((one == two).all()), bool((one != base).any()), said]))
"""


@pytest.mark.parametrize("instruction_set", ["", "avx2", "portable"])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_answers_as_its_factors_do(package, models, family, instruction_set):
    result = native_core.run_python(
        f"{package}:{native_core.ROOT}",
        "-c",
        LOGITS,
        models / f"{family}.edgelora",
        instruction_set=instruction_set,
    )
    sizes, is_same, has_effect, said = json.loads(result.stdout)
    assert sizes[0] == sizes[1] > 0
    assert is_same
    assert has_effect
    assert "damaged" in said
