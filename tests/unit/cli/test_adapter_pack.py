import hashlib
import json

import pytest

from edgelora.adapter_format import adapter_digest, codec, read_adapter
from edgelora.cli.main import run
from services.chassis.base_model import BaseModel
from tests.support.adapter_files import config_bytes, safetensors_bytes, tensors
from tests.support.tiny_encoder import save_tiny_encoder


@pytest.fixture
def adapter(tmp_path):
    directory = tmp_path / "adapter"
    directory.mkdir()
    (directory / "adapter_config.json").write_bytes(b'{"r": 4}')
    (directory / "adapter_model.safetensors").write_bytes(bytes(5000))
    (directory / "README.md").write_bytes(b"not part of it")
    return directory


def pack(capsys, *arguments):
    assert run(["adapters", "pack", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_layout_is_what_the_image_specification_says(tmp_path, adapter, capsys):
    (adapter / "probe.jsonl").write_bytes(b"{}\n")
    (adapter / "card.json").write_bytes(b"{}")
    output = tmp_path / "deep" / "mail"
    said = pack(capsys, adapter, output, "--tag", "v1")
    assert json.loads((output / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads((output / "index.json").read_bytes())["manifests"]
    assert said == {"digest": described["digest"], "tag": "v1", "encoded": None}
    assert described["annotations"] == {"org.opencontainers.image.ref.name": "v1"}

    def blob(descriptor):
        data = (output / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
        assert hashlib.sha256(data).hexdigest() == descriptor["digest"].removeprefix("sha256:")
        assert len(data) == descriptor["size"]
        return data

    manifest = json.loads(blob(described))
    assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.model.config.v1+json"
    config = json.loads(blob(manifest["config"]))
    assert config["modelfs"]["diffIds"] == [layer["digest"] for layer in manifest["layers"]]
    files = {
        layer["annotations"]["org.cncf.model.filepath"]: (layer["mediaType"], blob(layer))
        for layer in manifest["layers"]
    }
    assert files == {
        "adapter_config.json": (
            "application/vnd.cncf.model.weight.config.v1.raw",
            b'{"r": 4}',
        ),
        "adapter_model.safetensors": ("application/vnd.cncf.model.weight.v1.raw", bytes(5000)),
        "probe.jsonl": ("application/vnd.cncf.model.dataset.v1.raw", b"{}\n"),
        "card.json": ("application/vnd.cncf.model.doc.v1.raw", b"{}"),
    }
    assert len(list((output / "blobs" / "sha256").iterdir())) == 6
    assert [entry.name for entry in output.parent.iterdir()] == ["mail"]


def test_equal_files_make_an_equal_package(tmp_path, adapter, capsys):
    digests = {pack(capsys, adapter, tmp_path / name)["digest"] for name in ("one", "two")}
    assert len(digests) == 1


TARGETS = {"q_proj": (64, 96), "v_proj": (32, 96), "k_proj": (48, 96)}
BASE = BaseModel(
    name="tiny",
    digest="sha256:" + "5" * 64,
    family="llama",
    vocab_size=64,
    hidden_size=96,
    num_layers=2,
    max_context_tokens=64,
    targets=TARGETS,
    files={},
)


@pytest.fixture
def home(tmp_path):
    model = tmp_path / "home" / "models" / "tiny"
    model.mkdir(parents=True)
    BASE.save(model)
    return tmp_path / "home"


def write_adapter(directory, *modules):
    directory.mkdir()
    named = tensors(modules, targets=TARGETS, num_layers=2)
    config, weights = config_bytes(target_modules=list(modules)), safetensors_bytes(named)
    (directory / "adapter_config.json").write_bytes(config)
    (directory / "adapter_model.safetensors").write_bytes(weights)
    return config, weights


@pytest.mark.parametrize(("options", "level"), [([], 3.2), (["--bits", "8"], 8.0)])
def test_the_encoded_form_for_a_model_is_one_layer_more(tmp_path, home, capsys, options, level):
    files = write_adapter(tmp_path / "real", "q_proj", "v_proj")
    arguments = [tmp_path / "real", tmp_path / "out", "--model", "tiny", "--home", home, *options]
    said = pack(capsys, *arguments)
    blobs = tmp_path / "out" / "blobs"
    manifest = json.loads((blobs / said["digest"].replace(":", "/")).read_bytes())
    assert len(manifest["layers"]) == 3
    layer = manifest["layers"][2]
    assert layer["mediaType"] == "application/vnd.edgelora.adapter.encoded.v1"
    assert layer["annotations"]["edgelora.base.digest"] == BASE.digest
    assert layer["annotations"]["edgelora.codec.version"] == str(codec.VERSION)
    data = (blobs / layer["digest"].replace(":", "/")).read_bytes()
    assert layer["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert said["encoded"] == {
        "base_digest": BASE.digest,
        "codec_version": codec.VERSION,
        "size_bytes": len(data),
    }
    header = codec.read_encoded_header(data)
    config, weights = read_adapter(*files, targets=TARGETS, num_layers=2, max_rank=64)
    assert header.digest == adapter_digest(config, files[1])
    assert (header.base_digest, header.level) == (BASE.digest, level)
    assert codec.decode(data).pairs.keys() == weights.pairs.keys()


@pytest.mark.parametrize(
    ("modules", "options", "status", "words"),
    [
        (["q_proj"], ["--model", "other"], 1, "is not prepared"),
        (["q_proj"], ["--bits", "8"], 2, "--bits needs --model"),
        (["q_proj"], ["--model", "tiny", "--bits", "5"], 2, "3.2"),
        (["k_proj"], ["--model", "tiny"], 1, "multiples of 32"),
    ],
)
def test_what_can_not_be_encoded_is_not_packed(
    tmp_path, home, capsys, modules, options, status, words
):
    write_adapter(tmp_path / "real", *modules)
    paths = [str(tmp_path / "real"), str(tmp_path / "out"), "--home", str(home)]
    assert run(["adapters", "pack", *paths, *options]) == status
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["{adapter}", "{adapter}"], 1, "there is something already"),
        (["{tmp}", "{tmp}/out"], 1, "adapter_config.json is missing"),
        (["{adapter}", "{tmp}/out", "--tag", "a/b"], 2, "a tag has"),
        (["{tmp}/none", "{tmp}/out"], 2, "does not exist"),
    ],
)
def test_what_can_not_be_packed_leaves_nothing(tmp_path, adapter, capsys, arguments, status, words):
    arguments = [text.format(adapter=adapter, tmp=tmp_path) for text in arguments]
    assert run(["adapters", "pack", *arguments]) == status
    assert words in capsys.readouterr().err
    assert {entry.name for entry in tmp_path.iterdir()} == {"adapter"}


def test_an_encoders_adapter_is_packed_with_its_head_and_not_encoded(tmp_path, adapter, capsys):
    (adapter / "head.json").write_bytes(b"{}")
    save_tiny_encoder(tmp_path / "home" / "models" / "tiny")
    options = ["--home", str(tmp_path / "home"), "--model", "tiny"]
    assert run(["adapters", "pack", str(adapter), str(tmp_path / "out"), *options]) == 1
    assert "pack it without --model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    pack(capsys, adapter, tmp_path / "out")
    blobs = [path.read_bytes() for path in (tmp_path / "out" / "blobs" / "sha256").iterdir()]
    (manifest,) = (json.loads(blob) for blob in blobs if b'"layers":[' in blob)
    names = [each["annotations"]["org.cncf.model.filepath"] for each in manifest["layers"]]
    assert names == ["adapter_config.json", "adapter_model.safetensors", "head.json"]
