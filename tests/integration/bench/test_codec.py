"""`edgelora bench codec` on the real model and a shipped adapter."""

import pytest

pytest.importorskip("edgelora_native", reason="the native core is not installed")

from bench import codec
from bench.held_out import compare, read_held_out
from bench.result import BenchError, BenchOptions
from edgelora.adapter_format import read_adapter
from services.adapter_store.verification.measured_model import MeasuredModel
from services.chassis.base_model import NATIVE_FILE, BaseModel
from tests.support.prepared_model import ROOT, prepared_model


@pytest.fixture
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_quick_run_fills_every_table_and_target(at_root):
    result = codec.run(BenchOptions(quick=True, model_directory=prepared_model()))
    methods = {row["method"]: row for row in result.results["methods"]}
    assert list(methods)[:3] == ["3.2 bits", "4.5 bits", "8 bits"]
    assert methods["8 bits"]["error"] < methods["4.5 bits"]["error"]
    assert methods["4.5 bits"]["error"] < methods["NF4, block 64"]["error"]
    assert methods["3.2 bits"]["error"] < methods["int3, group 64"]["error"]
    (loading,) = result.results["loading"]
    assert loading["bytes_before"] > 4.8 * loading["bytes_after"] > 0
    assert all(target.value is not None for target in result.targets)


def test_an_adapter_beside_itself_loses_nothing(at_root):
    directory = prepared_model()
    base = BaseModel.load(directory)
    home, email = (
        read_adapter(
            (codec.DEMO / name / "adapter_config.json").read_bytes(),
            (codec.DEMO / name / "adapter_model.safetensors").read_bytes(),
            targets=base.targets,
            num_layers=base.num_layers,
            max_rank=64,
        )[1]
        for name in ("home", "email")
    )
    held_out = read_held_out(codec.DEMO / "home/data/test.jsonl", directory, 40)
    model = MeasuredModel(directory / NATIVE_FILE, vocab_size=base.vocab_size, max_rank=64)
    same = compare(model, held_out, home, home)
    assert same.original == same.other
    assert (same.mean_kl, same.agreement) == (0, 1)
    # An adapter for letters answers no home command; the slots were left free.
    other = compare(model, held_out, home, email)
    assert other.original == same.original
    assert other.other.accuracy < other.original.accuracy
    assert other.other.loss > other.original.loss
    assert other.other.exact == 0 < other.original.exact


def test_adapters_that_were_not_trained_are_named(at_root, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/here").symlink_to(prepared_model())
    options = BenchOptions(model_directory=tmp_path / "models/here")
    with pytest.raises(BenchError, match="email-r16 is missing: run `make demo-ranks`"):
        codec.run(options)
