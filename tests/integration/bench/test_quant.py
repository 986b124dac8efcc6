"""`bench quant` on a very small model: the same weights in every file, one text for all engines."""

import dataclasses
import math

import numpy as np
import pytest

from bench.peers.roster import NATIVE
from bench.perplexity import VARIABLE
from bench.quant_files import gguf_matrices, write_float32_gguf
from bench.result import BenchError, BenchOptions
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.prepare import DEFAULT_NAME, prepare
from tests.support.tiny_families import save_directory, save_gguf, tiny_model

pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from bench import quant, quant_models, quant_speed

pytestmark = pytest.mark.integration

WORDS = "the lamp in the kitchen is on and the train leaves at nine while rain falls"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    place = tmp_path_factory.mktemp("home")
    network = tiny_model("llama", rope={"rope_theta": 100_000.0})
    (place / "source").mkdir()
    save_directory(network, place / "source")
    save_gguf(network, place / "published.gguf")
    prepare(place / "published.gguf", place, DEFAULT_NAME, weights="both")
    draw = np.random.default_rng(0)
    for name in ("test.txt", "valid.txt"):
        (place / name).write_text(" ".join(draw.choice(WORDS.split(), 600)))
    return place


@pytest.fixture
def options(home, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(home / "test.txt"))
    monkeypatch.setattr(quant_models, "default_gguf", lambda cache: home / "published.gguf")
    monkeypatch.setattr(quant, "WINDOW_TOKENS", 64)
    monkeypatch.setattr(quant_speed, "PREFILL_TOKENS", 32)
    monkeypatch.setattr(quant_speed, "PROMPT_TOKENS", 8)
    plan = dataclasses.replace(quant._QUICK_PLAN, models=[quant_models.ROTATED], new_tokens=4)
    monkeypatch.setattr(quant, "_QUICK_PLAN", plan)
    return BenchOptions(quick=True, model_directory=home / "models" / DEFAULT_NAME, num_threads=1)


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_of_a_directory_has_its_weights_and_tokenizer(home, tmp_path, tied):
    save_directory(tiny_model("llama", tied=tied), tmp_path)
    source = open_directory(tmp_path)
    target = tmp_path / "written.gguf"
    write_float32_gguf(source, home / "published.gguf", target)
    written = open_gguf(target)
    assert written.shape == source.shape
    assert written.tensors.keys() == source.tensors.keys()
    for name, tensor in source.tensors.items():
        assert np.array_equal(written.tensors[name].float32(), tensor.float32()), name
    assert written.tokenizer.document == open_gguf(home / "published.gguf").tokenizer.document
    matrices = gguf_matrices(target)
    assert matrices.bits_per_weight == 32
    assert matrices.num_weights == sum(
        math.prod(size) for size in source.shape.tensors().values() if len(size) == 2
    )


def test_other_models_are_not_written(home, tmp_path):
    save_directory(tiny_model("qwen2"), tmp_path)
    with pytest.raises(BenchError, match="only plain llama models"):
        write_float32_gguf(open_directory(tmp_path), home / "published.gguf", tmp_path / "no.gguf")


def test_every_form_is_judged_and_nothing_is_computed_twice(options, monkeypatch):
    result = quant.run(options)
    rows = {row["weights"]: row for row in result.results["perplexity"]}
    exact = rows["float32"]["first"]
    assert rows["bfloat16"]["first"] == pytest.approx(exact, rel=0.02)
    assert rows["plain"]["first"] == pytest.approx(exact, rel=0.1)
    files = {row["weights"]: row for row in result.results["files"]}
    bits = {weights: row["bits_per_weight"] for weights, row in files.items()}
    assert bits["mixed"] < bits["plain"] < bits["bfloat16"] == 16
    if "Q4_0" in rows:
        assert rows["Q4_1"]["first"] == pytest.approx(exact, rel=0.1)
        # The budget is the bytes of Q4_0; rows that fill up the vocabulary come on top.
        assert bits["mixed"] == pytest.approx(bits["Q4_0"], abs=0.1)
    speeds = result.results["speed"]
    assert [row["case"] for row in speeds] == [
        "decode, 1 stream",
        "decode, 8 streams",
        "prefill, 32 tokens",
    ]
    assert all(row["mixed"] > 0 for row in speeds)
    monkeypatch.setattr(quant, "measure_speed", lambda forms, place, **_: {})

    def refuse(*_):
        raise AssertionError("everything is known")

    monkeypatch.setattr(type(NATIVE), "start", refuse)
    again = quant.run(options)
    assert again.results["perplexity"] == result.results["perplexity"]
