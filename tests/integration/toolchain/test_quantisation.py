"""Calibrated rounding of very small models, from calibration text to packed file."""

import dataclasses
import json
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tokenizers import Tokenizer

from edgelora.cli.main import cli
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.gguf_source import open_gguf
from edgelora.toolchain.hf_source import open_directory
from edgelora.toolchain.quantisation import mixed_rounding
from services.chassis.base_model import BaseModel
from tests.support.tiny_families import save_directory, save_gguf, tiny_model

pytest.importorskip("edgelora_native.matrices", reason="run `make native` first")
from edgelora.toolchain.quantisation import quantise as quantise_module
from edgelora.toolchain.quantisation.calibration_data import read_text
from edgelora.toolchain.quantisation.error_compensation import (
    Compensation,
    damped,
    output_error,
)
from edgelora.toolchain.quantisation.kinds import INT4_MINIMUM, INT8, KINDS
from edgelora.toolchain.quantisation.options import (
    QuantisationOptions,
    SizeBudget,
)
from edgelora.toolchain.quantisation.quantise import native_matrix, quantise
from edgelora.toolchain.quantisation.report import report_files
from edgelora.toolchain.quantisation.rounding import round_plainly
from edgelora.toolchain.quantisation.workers import Workers
from tests.support.packed_file import PackedFile

pytestmark = pytest.mark.integration

WORDS = "the lamp in the kitchen is on and the train leaves at nine while rain falls "


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration") / "text.txt"
    order = np.random.default_rng(0)
    path.write_text(" ".join(order.choice(WORDS.split(), 3000)))
    return path


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def model(request, tmp_path_factory):
    tied = request.param != "qwen2"
    network = tiny_model(request.param, tied=tied)
    directory = tmp_path_factory.mktemp(request.param)
    save_directory(network, directory)
    return network, open_directory(directory)


@pytest.fixture(scope="module")
def options(text):
    return QuantisationOptions(
        calibration=text,
        inputs=12,
        input_tokens=32,
        held_out_inputs=3,
        sensitivity_tokens=32,
        size_budget=SizeBudget(bits_per_weight=5.5),
    )


@pytest.fixture(scope="module")
def quantised(model, options):
    return quantise(model[1], options)


def test_every_kind_makes_up_for_its_errors_and_packs_as_it_is():
    torch.manual_seed(0)
    weights = torch.randn(40, 96) * 0.1
    inputs = torch.randn(500, 96) @ (torch.randn(96, 96) * 0.2 + torch.eye(96))
    hessian = damped(inputs.T @ inputs)
    compensation = Compensation(hessian)
    before = math.inf
    for kind in sorted(KINDS, key=lambda kind: kind.bits_per_weight):
        plain = round_plainly(weights, kind)
        with Workers() as workers:
            found = compensation.round(weights, kind, workers)
        error = output_error(weights - found.weights(), hessian)
        assert error < 0.75 * output_error(weights - plain.weights(), hessian)
        assert error < before
        before = error
        assert kind.least <= int(found.values.min()) <= int(found.values.max()) <= kind.most
        matrix = native_matrix(found)
        np.testing.assert_array_equal(matrix.dequantise(), found.weights().numpy())
        assert matrix.bits_per_weight == kind.bits_per_weight


def test_the_layers_are_those_of_transformers(model, options, quantised):
    network, source = model
    comparison = quantised.report.held_out
    windows = _held_out(source, options)
    with torch.no_grad():
        loss = network(input_ids=windows, labels=windows).loss
    assert comparison.tokens == windows.numel() - len(windows)
    assert comparison.perplexity_before == pytest.approx(math.exp(loss), rel=1e-4)


def test_the_report_holds_for_the_weights_that_are_packed(model, options, quantised):
    network, source = model
    found, report = quantised, quantised.report
    assert report.bits_per_weight <= 5.5
    bits = sum(m.bits_per_weight * math.prod(m.shape) for m in found.matrices.values())
    assert bits / 8 == pytest.approx(report.num_bytes, rel=1e-3)
    state = network.state_dict()
    rounded = {name: torch.from_numpy(m.dequantise()) for name, m in found.matrices.items()}
    if "lm_head.weight" not in rounded:
        rounded["lm_head.weight"] = rounded["model.embed_tokens.weight"]
    windows = _held_out(source, options)
    try:
        network.load_state_dict({**state, **rounded})
        with torch.no_grad():
            loss = network(input_ids=windows, labels=windows).loss
    finally:
        network.load_state_dict(state)
    assert report.held_out.perplexity_after == pytest.approx(math.exp(loss), rel=1e-4)
    assert 0 < report.held_out.divergence < 0.5


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_the_same_seed_gives_the_same_numbers_and_another_one_others(model, options, quantised):
    _, source = model
    threads = torch.get_num_threads()
    torch.set_num_threads(3 if threads == 1 else 1)
    try:
        first, again = quantised, quantise(source, options)
    finally:
        torch.set_num_threads(threads)
    for name, matrix in first.matrices.items():
        np.testing.assert_array_equal(matrix.values, again.matrices[name].values)
        np.testing.assert_array_equal(matrix.scale, again.matrices[name].scale)
    other = quantise(source, dataclasses.replace(options, seed=1))
    assert other.report.held_out != first.report.held_out


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_the_report_names_data_seeds_versions_and_has_pictures(model, options, text):
    _, source = model
    left_out = dataclasses.replace(options, size_budget=None, left_out=("down_proj",))
    files = report_files(quantise(source, left_out).report)
    assert set(files) == {
        "quantisation.json",
        "quantisation.md",
        "quantisation_sensitivity.svg",
        "quantisation_bits.svg",
        "quantisation_perplexity.svg",
    }
    document = json.loads(files["quantisation.json"])
    assert document["calibration"][0]["name"] == text.name
    assert document["settings"]["seed"] == 0
    assert set(document["versions"]) >= {"python", "torch", "edgelora-native"}
    kinds = {one["name"]: one["kind"] for one in document["products"]}
    assert kinds["layers.0.down"] == kinds["layers.1.attention"] == INT8.name
    markdown = files["quantisation.md"]
    assert document["calibration"][0]["sha256"] in markdown
    assert str(text.parent) not in markdown + json.dumps(document)


def test_numbers_on_a_4_bit_grid_stay_exact_unless_the_budget_forbids(tmp_path, text, options):
    import gguf

    path = tmp_path / "grid.gguf"
    save_gguf(tiny_model("llama"), path, kind=gguf.GGMLQuantizationType.Q4_1)
    source = open_gguf(path)
    kept = quantise(source, dataclasses.replace(options, size_budget=None))
    for name, matrix in kept.matrices.items():
        np.testing.assert_array_equal(matrix.dequantise(), source.tensors[name].float32())
    assert {one.kind for one in kept.report.products} == {INT4_MINIMUM.name}
    assert kept.report.held_out.divergence == pytest.approx(0, abs=1e-6)
    pictures = {name for name in report_files(kept.report) if name.endswith(".svg")}
    assert pictures == {"quantisation_bits.svg", "quantisation_perplexity.svg"}
    tight = quantise(source, dataclasses.replace(options, size_budget=SizeBudget.parse("4.7b")))
    assert tight.report.bits_per_weight <= 4.7
    assert any(one.is_exact for one in tight.report.products)


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_without_a_file_the_demos_and_the_model_itself_are_the_text(model, options):
    _, source = model
    own = dataclasses.replace(options, calibration=None)
    texts = quantise(source, own).report.calibration
    assert [one["name"].split(":")[0] for one in texts] == [
        "demo conversations",
        "texts the model wrote itself",
    ]
    assert sum(one["windows"] for one in texts) == 15


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_an_interruption_leaves_no_file_behind(model, options, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(quantise_module, "compare", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantise(model[1], dataclasses.replace(options, calibration=None))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("model", ["llama"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_out": ("nope",)}, "module 'nope' does not exist in this model: leave out one of d"),
        ({"size_budget": SizeBudget.parse("4.1b")}, "the size budget is .* raise it"),
        ({"size_budget": SizeBudget.parse("4.6b"), "left_out": ("down_proj",)}, "raise it"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_measured(model, options, changes, words):
    _, source = model
    unread = dataclasses.replace(options, calibration=Path("nowhere"), **changes)
    with pytest.raises(ToolchainError, match=words):
        quantise(source, unread)


@pytest.mark.parametrize("model", ["llama"], indirect=True)
@pytest.mark.parametrize("value", [7e4, 3e38])
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.norm.weight"])
def test_weights_beyond_any_range_are_refused_in_words(model, options, name, value):
    class Changed:
        shape = model[1].tensors[name].shape

        def float32(self, rows=slice(None)):
            values = model[1].tensors[name].float32(rows).copy()
            values.flat[0] = value
            return values

    source = dataclasses.replace(model[1], tensors={**model[1].tensors, name: Changed()})
    with pytest.raises(ToolchainError, match=r"leave their range|beyond half precision"):
        quantise(source, dataclasses.replace(options, inputs=2, held_out_inputs=1))


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_a_text_that_is_too_short_is_refused_with_the_remedy(model, options, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("no")
    with pytest.raises(ToolchainError, match="give more text"):
        quantise(model[1], dataclasses.replace(options, calibration=path))


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_chat_data_is_read_as_the_model_writes_it(model, tmp_path):
    path = tmp_path / "chat.jsonl"
    turns = [{"role": "user", "content": "on?"}, {"role": "assistant", "content": "yes"}]
    path.write_text(json.dumps({"messages": turns}))
    source = model[1]
    ids = read_text(path, source).token_ids
    written = Tokenizer.from_str(source.tokenizer.document).decode(ids, skip_special_tokens=False)
    assert "on?" in written
    assert written.index("on?") < written.index("yes")
    assert len(ids) > len(Tokenizer.from_str(source.tokenizer.document).encode("on?yes").ids)


def test_prepare_writes_the_report_and_another_rounding_removes_it(tmp_path, text):
    import gguf

    source = tmp_path / "source.gguf"
    save_gguf(tiny_model("llama"), source, kind=gguf.GGMLQuantizationType.F32)
    arguments = ["model", "prepare", str(source), "--name", "m", "--home", str(tmp_path)]
    arguments += ["--weights", "native"]
    mixed = ["--quant", "mixed", "--calibration", str(text), "--calibration-inputs", "4"]
    result = CliRunner().invoke(cli, [*arguments, *mixed, "--size-budget", "5.0b"])
    assert result.exit_code == 0, result.output
    directory = tmp_path / "models" / "m"
    assert BaseModel.load(directory).quantisation == "mixed"
    document = json.loads((directory / "quantisation.json").read_text())
    assert document["bits_per_weight"] <= 5.0
    packed = PackedFile.read(directory / "model.edgelora")
    kinds = {one["name"]: one["bits_per_weight"] for one in document["products"]}
    for layer, (_, qkv, output, _, gate_up, down, *_) in enumerate(packed.layers):
        sites = {"attention": qkv, "output": output, "feed_forward": gate_up, "down": down}
        for site, matrix in sites.items():
            assert matrix.bits_per_weight == kinds[f"layers.{layer}.{site}"]
    assert CliRunner().invoke(cli, [*arguments, "--quant", "plain"]).exit_code == 0
    assert list(directory.glob("quantisation*")) == []


def test_settings_without_mixed_are_refused(tmp_path, text):
    source = tmp_path / "source.gguf"
    source.touch()
    result = CliRunner().invoke(cli, ["model", "prepare", str(source), "--calibration", str(text)])
    assert isinstance(result.exception, ToolchainError)
    assert "need --quant mixed" in str(result.exception)


def test_without_torch_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(mixed_rounding, "find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match=r"pip install -e '\.\[prepare,torch\]'"):
        mixed_rounding.MixedRounding(QuantisationOptions())


def _interrupt(*arguments):
    raise KeyboardInterrupt


def _held_out(source, options):
    """The windows that a report's figures are of, drawn as documented."""
    from edgelora.toolchain.quantisation.quantise import calibration_windows

    return calibration_windows(source, options, lambda *_: None).held_out
