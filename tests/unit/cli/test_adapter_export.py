"""`edgelora adapters export`: what it writes, when it writes nothing, and what it says."""

import json

import gguf
import numpy as np
import pytest

from edgelora.adapter_format import read_adapter, read_tensors
from edgelora.cli.main import run
from services.chassis.base_model import BaseModel
from tests.support.adapter_files import (
    TINY_LAYERS,
    TINY_TARGETS,
    config_bytes,
    safetensors_bytes,
    tensors,
)
from tests.support.tiny_encoder import classifier_files, save_tiny_encoder

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE = BaseModel(
    name="tiny",
    digest="sha256:" + "5" * 64,
    family="llama",
    vocab_size=64,
    hidden_size=32,
    num_layers=TINY_LAYERS,
    max_context_tokens=64,
    targets=TINY_TARGETS,
    files={},
)


@pytest.fixture
def home(tmp_path):
    model = tmp_path / "home" / "models" / "tiny"
    model.mkdir(parents=True)
    BASE.save(model)
    shape = {"num_attention_heads": 4, "num_key_value_heads": 2}
    (model / "config.json").write_text(json.dumps(shape))
    return tmp_path / "home"


@pytest.fixture
def adapter(tmp_path):
    directory = tmp_path / "mail"
    directory.mkdir()
    (directory / CONFIG).write_bytes(config_bytes(brand_new_option=None, fan_in_fan_out=True))
    (directory / WEIGHTS).write_bytes(
        safetensors_bytes(
            {n.replace(".weight", ".default.weight"): t for n, t in tensors().items()}
        )
    )
    (directory / "card.json").write_bytes(b'{"description": "d", "examples": ["e"]}')
    (directory / "README.md").write_text("about it")
    (directory / "report.json").write_text("{}")
    return directory


@pytest.fixture
def export(home, capsys):
    def call(directory, form, output, *options, status=0, model="tiny"):
        arguments = [directory, "--format", form, "-o", output, "--home", home, *options]
        if model is not None:
            arguments += ["--model", model]
        assert run(["adapters", "export", *map(str, arguments)]) == status
        said = capsys.readouterr()
        return said.out if status == 0 else said.err

    return call


def test_a_peft_directory_is_the_same_adapter_in_todays_names(export, adapter, tmp_path):
    said = json.loads(export(adapter, "peft", tmp_path / "deep" / "out", "--json"))
    output = tmp_path / "deep" / "out"
    assert said == {
        "format": "peft",
        "output": str(output),
        "base_digest": BASE.digest,
        "modules": 2 * TINY_LAYERS,
        "max_rank": 4,
    }
    assert [one.name for one in output.parent.iterdir()] == ["out"]
    assert {one.name for one in output.iterdir()} == {CONFIG, WEIGHTS, "card.json", "README.md"}
    written = read_tensors((output / WEIGHTS).read_bytes())
    assert written.keys() == tensors().keys()
    for name, values in tensors().items():
        np.testing.assert_array_equal(written[name], values)
    config = json.loads((output / CONFIG).read_text())
    assert (config["task_type"], config["base_model_name_or_path"]) == ("CAUSAL_LM", "tiny")
    assert "brand_new_option" not in config
    assert config["fan_in_fan_out"] is False


@pytest.mark.parametrize("form", ["peft", "gguf"])
def test_an_exported_adapter_is_exported_to_the_same_bytes(export, adapter, tmp_path, form):
    export(adapter, "peft", tmp_path / "once")
    for source, target in ((adapter, "one"), (tmp_path / "once", "two")):
        export(source, form, tmp_path / target)
    pairs = [(tmp_path / "one", tmp_path / "two")]
    if form == "peft":
        pairs = [(tmp_path / "one" / name, tmp_path / "two" / name) for name in (CONFIG, WEIGHTS)]
    assert all(one.read_bytes() == two.read_bytes() for one, two in pairs)


def test_a_gguf_file_has_every_factor(export, adapter, tmp_path):
    assert export(adapter, "gguf", tmp_path / "mail.gguf") == (
        f"exported 4 modules of rank up to 4 for tiny to {tmp_path}/mail.gguf\n"
    )
    names = {tensor.name for tensor in gguf.GGUFReader(tmp_path / "mail.gguf").tensors}
    assert len(names) == 2 * 2 * TINY_LAYERS
    assert "blk.1.attn_v.weight.lora_b" in names


@pytest.mark.parametrize("form", ["peft", "gguf"])
def test_what_is_there_stays_unless_it_is_to_be_replaced(export, adapter, tmp_path, form):
    output = tmp_path / "out"
    export(adapter, form, output)
    (adapter / WEIGHTS).write_bytes(safetensors_bytes(tensors(seed=1)))
    file = output / WEIGHTS if form == "peft" else output
    before = file.read_bytes()
    assert "--force" in export(adapter, form, output, status=1)
    assert file.read_bytes() == before
    export(adapter, form, output, "--force")
    assert file.read_bytes() != before


def test_force_replaces_nothing_but_an_export(export, adapter, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "cat.jpg").write_bytes(b"cat")
    for form in ("peft", "gguf"):
        assert "choose another output" in export(adapter, form, photos, "--force", status=1)
    assert "choose another output" in export(adapter, "peft", adapter, "--force", status=1)
    (adapter / "rank-2").mkdir()
    for name in (CONFIG, WEIGHTS):
        (adapter / "rank-2" / name).write_bytes((adapter / name).read_bytes())
    assert "choose another" in export(adapter / "rank-2", "peft", adapter, "--force", status=1)
    assert [one.name for one in photos.iterdir()] == ["cat.jpg"]
    assert (adapter / "report.json").exists()


@pytest.mark.parametrize("form", ["peft", "gguf"])
def test_what_is_not_served_is_refused_by_name_and_leaves_nothing(export, adapter, tmp_path, form):
    (adapter / CONFIG).write_bytes(config_bytes(use_dora=True))
    assert "use_dora" in export(adapter, form, tmp_path / "out", status=1)
    (adapter / CONFIG).unlink()
    assert f"{CONFIG} is missing" in export(adapter, form, tmp_path / "out", status=1, model=None)
    assert not (tmp_path / "out").exists()


def test_a_number_that_does_not_fit_leaves_the_file_that_was_there(export, adapter, tmp_path):
    output = tmp_path / "out.gguf"
    export(adapter, "gguf", output)
    before = output.read_bytes()
    (adapter / WEIGHTS).write_bytes(safetensors_bytes(tensors(scale=1000)))
    (adapter / CONFIG).write_bytes(config_bytes(alpha_pattern={"q_proj": 900}))
    said = export(adapter, "gguf", output, "--half", "--force", status=1)
    assert "blk.0.attn_q.weight.lora_b does not fit into float16" in said
    assert output.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_an_adapter_of_an_encoder_is_no_gguf_but_peft(export, home, tmp_path):
    save_tiny_encoder(home / "models" / "all-minilm-l6-v2")
    files = classifier_files(["yes", "no"])
    source = tmp_path / "intents"
    source.mkdir()
    for name, data in ((CONFIG, files.config), (WEIGHTS, files.weights), ("head.json", files.head)):
        (source / name).write_bytes(data)
    said = export(source, "gguf", tmp_path / "out", model=None, status=1)
    assert "takes adapters of decoders alone" in said
    assert "CAUSAL_LM" in export(source, "gguf", tmp_path / "out", status=1)
    export(source, "peft", tmp_path / "out", model=None)
    assert (tmp_path / "out" / "head.json").read_bytes() == files.head
    written = read_tensors((tmp_path / "out" / WEIGHTS).read_bytes())
    original = read_tensors(files.weights)
    assert written.keys() == original.keys()
    assert all(np.array_equal(written[name], original[name]) for name in original)


def test_what_is_asked_for_wrongly_is_told(export, adapter, home, tmp_path):
    said = export(adapter, "gguf", tmp_path / "out", model="other", status=1)
    assert "model other is not prepared" in said
    said = export(adapter, "peft", tmp_path / "out", "--half", status=2)
    assert "--half is for --format gguf" in said
    (home / "models" / "tiny" / "config.json").unlink()
    said = export(adapter, "gguf", tmp_path / "out", status=1)
    assert "model tiny is damaged: run `edgelora model prepare --force`" in said


def test_ranks_and_alphas_of_single_modules_stay(export, adapter, tmp_path):
    named = tensors() | tensors(("k_proj",), rank=2)
    changes = {
        "target_modules": ["q_proj", "k_proj", "v_proj"],
        "rank_pattern": {"k_proj": 2},
        "alpha_pattern": {"layers.1.self_attn.v_proj": 3},
        "use_rslora": True,
    }
    (adapter / CONFIG).write_bytes(config_bytes(**changes))
    (adapter / WEIGHTS).write_bytes(safetensors_bytes(named))
    export(adapter, "peft", tmp_path / "out")
    configs = []
    for directory in (adapter, tmp_path / "out"):
        config, _ = read_adapter(
            (directory / CONFIG).read_bytes(),
            (directory / WEIGHTS).read_bytes(),
            targets=TINY_TARGETS,
            num_layers=TINY_LAYERS,
            max_rank=64,
        )
        configs.append(config)
    assert configs[0] == configs[1]


def test_no_link_takes_another_file_of_this_machine_along(export, adapter, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of this machine")
    (adapter / "README.md").unlink()
    for name in ("README.md", "head.json"):
        (adapter / name).symlink_to(secret)
    export(adapter, "peft", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {CONFIG, WEIGHTS, "card.json"}
    for name in ("card.json", "probe.jsonl"):
        (adapter / name).unlink(missing_ok=True)
        (adapter / name).symlink_to(secret)
        said = export(adapter, "peft", tmp_path / "other", status=1)
        assert name in said and "of this machine" not in said
        (adapter / name).unlink()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("card.json", b"{}", "card.json has to be"),
        ("probe.jsonl", b"x" * (1 << 20), "the limit is 65536"),
        ("README.md", b"x" * ((1 << 20) + 1), "larger than"),
        (CONFIG, b" " * ((1 << 20) + 1), "the limit is 1048576"),
    ],
)
def test_what_goes_along_is_held_to_its_limits(export, adapter, tmp_path, name, data, told):
    (adapter / name).write_bytes(data)
    assert told in export(adapter, "peft", tmp_path / "out", status=1)
    assert not (tmp_path / "out").exists()


def test_a_size_that_lies_takes_no_memory(export, adapter, tmp_path):
    with (adapter / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 36)
    assert "belong to none" in export(adapter, "gguf", tmp_path / "out.gguf", status=1)
