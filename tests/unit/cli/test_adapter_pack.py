import hashlib
import json

import pytest

from edgelora.cli.main import run


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
    }
    assert len(list((output / "blobs" / "sha256").iterdir())) == 5
    assert [entry.name for entry in output.parent.iterdir()] == ["mail"]


def test_equal_files_make_an_equal_package(tmp_path, adapter, capsys):
    digests = {pack(capsys, adapter, tmp_path / name)["digest"] for name in ("one", "two")}
    assert len(digests) == 1


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
