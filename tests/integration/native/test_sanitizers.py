"""The checking program under the sanitizers of the compiler. EDGELORA_NATIVE_ROWS: how long."""

import os

import pytest

from tests.support import native_core
from tests.support.encoded_adapters import encoded_for

pytestmark = pytest.mark.timeout(1800)  # compiles

ROWS = os.environ.get("EDGELORA_NATIVE_ROWS", "20")
RUNS = [
    ("address", "llama", ""),
    ("address", "llama", "portable"),
    ("address", "qwen", ""),
    ("address", "qwen", "avx2"),
    ("thread", "llama", ""),
    ("thread", "qwen", ""),
]


@pytest.mark.parametrize("instruction_set", ["", "portable"])
@pytest.mark.parametrize("kinds", ["symmetric", "half"])
def test_nothing_is_found_in_products_of_other_kinds(
    build, models, tmp_path, kinds, instruction_set
):
    model, directory = models / f"{kinds}.edgelora", build("address")
    for words in (("script", tmp_path / "output"), ("overflow",)):
        name, *more = map(str, words)
        reason = native_core.check(directory, name, model, *more, instruction_set=instruction_set)
        assert reason is None


@pytest.mark.parametrize("variant, family, instruction_set", RUNS)
def test_nothing_is_found(build, models, tmp_path, variant, family, instruction_set):
    model, output = models / f"{family}.edgelora", tmp_path / "output"
    directory = build(variant)
    encoded, small = tmp_path / "encoded", tmp_path / "small"
    encoded.write_bytes(encoded_for(family, 21))
    small.write_bytes(encoded_for(family, 8))
    runs = (
        ("script", output),
        ("refusals",),
        ("overflow",),
        ("encoded", encoded, tmp_path / "slot"),
        ("damaged", small),
        ("churn", ROWS, small),
        ("threads", ROWS),
    )
    for words in runs:
        name, *more = words
        more = [str(word) for word in more]
        reason = native_core.check(directory, name, model, *more, instruction_set=instruction_set)
        if reason is not None:
            pytest.skip(reason)
    encoder = models / "bert.encoder"
    for words in (("encoder", encoder, output.with_name("vectors")), ("encoder-refusals", encoder)):
        assert native_core.check(directory, *words, instruction_set=instruction_set) is None
    plain = tmp_path / "plain"
    assert native_core.check(build("release"), "script", model, plain) is None
    assert output.read_bytes() == plain.read_bytes()
