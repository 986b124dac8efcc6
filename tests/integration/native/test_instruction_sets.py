"""Every instruction set gives the same bits, on x86 and on ARM, and refuses the same things."""

import json

import pytest

from tests.support import native_core
from tests.support.encoded_adapters import encoded_for

pytestmark = pytest.mark.timeout(600)  # compiles

BUILDS_AND_SETS = [
    ("release", "avx512-vnni"),
    ("release", "avx2-vnni"),
    ("release", "avx2"),
    ("release", "neon-dotprod"),
    ("aarch64", "neon-dotprod"),
    ("aarch64", "portable"),
]


@pytest.fixture(params=["llama", "qwen"])
def model(models, request):
    return models / f"{request.param}.edgelora"


def check_or_skip(directory, *words, instruction_set):
    reason = native_core.check(directory, *words, instruction_set=instruction_set)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("variant, instruction_set", BUILDS_AND_SETS)
def test_logits_are_the_bits_of_plain_cpp(build, model, tmp_path, variant, instruction_set):
    compare_with_plain_cpp(build, model, tmp_path, variant, instruction_set)


# Plain C++ is the same on ARM, and slow under an emulator.
@pytest.mark.parametrize("variant, instruction_set", BUILDS_AND_SETS[:-1])
@pytest.mark.parametrize("name", ["symmetric", "half"])
def test_logits_of_other_kinds_are_too(build, models, tmp_path, name, variant, instruction_set):
    compare_with_plain_cpp(build, models / f"{name}.edgelora", tmp_path, variant, instruction_set)


def compare_with_plain_cpp(build, model, tmp_path, variant, instruction_set):
    plain, output = tmp_path / "plain", tmp_path / "output"
    check_or_skip(build("release"), "script", model, plain, instruction_set="portable")
    check_or_skip(build(variant), "script", model, output, instruction_set=instruction_set)
    assert plain.stat().st_size > 0
    assert output.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize(
    "words", [("refusals",), ("overflow",), ("churn", "10", "ENCODED")], ids=lambda w: w[0]
)
@pytest.mark.parametrize("variant, instruction_set", [*BUILDS_AND_SETS, ("release", "portable")])
def test_mistakes_overflows_and_changing_slots(
    build, model, tmp_path, variant, instruction_set, words
):
    encoded = tmp_path / "encoded"
    encoded.write_bytes(encoded_for(model.stem, 8))
    name, *more = (str(encoded) if word == "ENCODED" else word for word in words)
    check_or_skip(build(variant), name, model, *more, instruction_set=instruction_set)


@pytest.fixture(params=["bert", "bert-64"])
def encoder(models, request):
    return models / f"{request.param}.encoder"


@pytest.mark.parametrize("variant, instruction_set", BUILDS_AND_SETS)
def test_vectors_are_the_bits_of_plain_cpp(build, encoder, tmp_path, variant, instruction_set):
    plain, output = tmp_path / "plain", tmp_path / "output"
    check_or_skip(build("release"), "encoder", encoder, plain, instruction_set="portable")
    check_or_skip(build(variant), "encoder", encoder, output, instruction_set=instruction_set)
    check_or_skip(build(variant), "encoder-refusals", encoder, instruction_set=instruction_set)
    assert plain.stat().st_size > 0
    assert output.read_bytes() == plain.read_bytes()


OPEN = """
import json, pathlib, sys, edgelora_native as n
limits = n.Limits(num_kv_blocks=1, max_loras=0, max_lora_rank=1, max_step_tokens=1, num_threads=1)
said = []
for call in (n.instruction_set, lambda: n.Engine(pathlib.Path(sys.argv[1]), limits) and "open"):
    try:
        said.append(call())
    except n.NativeError as error:
        said.append(f"refused: {error}")
print(json.dumps(said))
"""


def said(package, model, instruction_set):
    result = native_core.run_python(package, "-c", OPEN, model, instruction_set=instruction_set)
    return json.loads(result.stdout)


def test_the_setting_forces_an_instruction_set(package, model):
    assert said(package, model, "portable") == ["portable", "open"]


def test_an_unset_setting_takes_the_best(package, model):
    best, opened = said(package, model, "")
    assert opened == "open"
    assert said(package, model, best) == [best, "open"]


@pytest.mark.parametrize("name", ["sse9", "AVX2", "portable "])
def test_an_unknown_instruction_set_is_refused_with_the_known_ones(package, model, name):
    for refused in said(package, model, name):
        assert refused.startswith("refused: EDGELORA_ISA names an unknown instruction set")
        assert refused.endswith("portable")
