import json

import pytest

from edgelora.adapter_format.codec import VERSION
from edgelora.adapter_package import Blob, EncodedForm, package_documents
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure
from services.adapter_store.remotes.package import (
    PackageLimits,
    choose_manifest,
    parse_manifest,
    sha256_digest,
)
from services.adapter_store.remotes.reference import parse_reference

LIMITS = PackageLimits(config=100, weights=1000, probe=50, card=40, head=45)
CONFIG, WEIGHTS, PROBE = "adapter_config.json", "adapter_model.safetensors", "probe.jsonl"
FILES = {CONFIG: Blob.of(b"c" * 100), WEIGHTS: Blob.of(b"w" * 1000)}
BASE, OTHER_BASE = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def form(base_digest=BASE, data=b"e" * 999, codec_version=VERSION):
    return EncodedForm(base_digest=base_digest, codec_version=codec_version, data=data)


def manifest(files=None, change=lambda document: None, encoded=()):
    document = json.loads(package_documents(FILES if files is None else files, encoded)[1])
    change(document)
    return json.dumps(document).encode()


def failure(data, **more):
    with pytest.raises(RemoteFailure) as caught:
        parse_manifest(data, LIMITS, **{"expected_digest": None, **more})
    return caught.value


def test_what_is_packed_is_understood():
    data = manifest({**FILES, PROBE: Blob.of(b"p")})
    found = parse_manifest(data, LIMITS, expected_digest=sha256_digest(data))
    assert found.digest == sha256_digest(data)
    assert {file: layer.digest for file, layer in found.layers.items()} == {
        "config": FILES[CONFIG].digest,
        "weights": FILES[WEIGHTS].digest,
        "probe": Blob.of(b"p").digest,
    }


def test_one_of_the_two_annotations_is_enough_and_other_layers_do_not_matter():
    def change(document):
        for layer, key in zip(
            document["layers"],
            ("org.opencontainers.image.title", "org.cncf.model.filepath"),
            strict=True,
        ):
            layer["annotations"] = {key: layer["annotations"][key], "other": "x"}
            layer["mediaType"] = "application/octet-stream"
        readme = {"org.opencontainers.image.title": "README.md"}
        document["layers"].append({"digest": "md5:1", "size": -1, "annotations": readme})
        document["layers"].append({"mediaType": "x/y"})

    assert set(parse_manifest(manifest(change=change), LIMITS, expected_digest=None).layers) == {
        "config",
        "weights",
    }


def test_a_manifest_of_other_bytes_is_corrupt():
    assert failure(manifest(), expected_digest=sha256_digest(b"")).kind is FailureKind.CORRUPT


def set_layer(number, **changes):
    return lambda document: document["layers"][number].update(changes)


UNUSABLE = {
    "an index": lambda d: d.update(mediaType="application/vnd.oci.image.index.v1+json"),
    "another schema": lambda d: d.update(schemaVersion=1),
    "no layers": lambda d: d.pop("layers"),
    "layers that are none": lambda d: d.update(layers={}),
    "too many layers": lambda d: d.update(layers=d["layers"] * 40),
    "no weights": lambda d: d["layers"].pop(1),
    "no config": lambda d: d["layers"].pop(0),
    "a file twice": lambda d: d["layers"].append(d["layers"][0]),
    "a layer that is none": lambda d: d["layers"].append(1),
    "a path as name": set_layer(0, annotations={"org.cncf.model.filepath": "../" + CONFIG}),
    "two names": set_layer(
        0,
        annotations={"org.cncf.model.filepath": CONFIG, "org.opencontainers.image.title": WEIGHTS},
    ),
    "annotations that are none": set_layer(0, annotations=[CONFIG]),
    "another hash": set_layer(1, digest="sha512:" + "0" * 128),
    "a digest with a path": set_layer(1, digest="sha256:../../x"),
    "a size that is true": set_layer(0, size=True),
    "a size that is a text": set_layer(1, size="10"),
    "a size of 0": set_layer(1, size=0),
    "a negative size": set_layer(1, size=-1),
    "too large a config": set_layer(0, size=101),
    "too large weights": set_layer(1, size=1001),
    "an archive": set_layer(1, mediaType="application/vnd.cncf.model.weight.v1.tar"),
    "a compressed layer": set_layer(1, mediaType="application/vnd.oci.image.layer.v1.tar+gzip"),
    "no media type": set_layer(1, mediaType=None),
}


@pytest.mark.parametrize("change", UNUSABLE)
def test_what_is_no_package_of_ours_is_unusable(change):
    found = failure(manifest(change=UNUSABLE[change]))
    assert found.kind is FailureKind.UNUSABLE
    assert found.message.startswith("this is not an adapter package")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff", b'{"layers": [], "layers": []}', b"[" * 100_000, b"<html>"]
)
def test_what_is_not_json_is_unusable(data):
    assert failure(data).kind is FailureKind.UNUSABLE


def test_encoded_forms_are_found_by_their_base_model_and_by_their_bytes():
    forms = (form(OTHER_BASE, b"o"), form(), form(data=b"second"))
    found = parse_manifest(manifest(encoded=forms), LIMITS, expected_digest=None)
    assert set(found.layers) == {"config", "weights"}
    assert [layer.file for layer in found.encoded] == ["encoded"] * 3
    names = [layer.annotations["org.cncf.model.filepath"] for layer in found.encoded]
    assert names[:2] == ["adapter-222222222222.edgelora", "adapter-111111111111.edgelora"]
    mine = Blob.of(b"e" * 999).digest
    assert found.encoded_for(BASE).digest == mine
    assert found.encoded_for(OTHER_BASE).digest == Blob.of(b"o").digest
    assert found.encoded_for("sha256:" + "3" * 64) is None
    assert found.encoded_as(mine, 999) is found.encoded[1]
    assert found.encoded_as(mine, 998) is None
    assert found.encoded_as(found.layers["weights"].digest, 1000) is None


NOT_WANTED = {
    "of another codec": form(codec_version=VERSION + 1),
    "as large as the original": form(data=b"e" * 1000),
}


@pytest.mark.parametrize("which", NOT_WANTED)
def test_encoded_form_that_is_of_no_use_is_not_wanted(which):
    data = manifest(encoded=[NOT_WANTED[which]])
    assert parse_manifest(data, LIMITS, expected_digest=None).encoded_for(BASE) is None


SPOILED = {
    "too large": {"size": 1001},
    "empty": {"size": 0},
    "of no size": {"size": None},
    "of a negative size": {"size": -1},
    "of another hash": {"digest": "sha512:" + "0" * 128},
    "with a path as digest": {"digest": "sha256:../../x"},
    "of another kind": {"mediaType": "application/vnd.edgelora.adapter.encoded.v1+gzip"},
    "of no kind": {"mediaType": None},
    "with annotations that are none": {"annotations": [BASE]},
    "without a base model": {"annotations": {"edgelora.codec.version": str(VERSION)}},
    "of a version that is a number": {
        "annotations": {"edgelora.base.digest": BASE, "edgelora.codec.version": VERSION}
    },
}


@pytest.mark.parametrize("which", SPOILED)
def test_malformed_encoded_form_costs_a_package_nothing(which):
    data = manifest(change=set_layer(2, **SPOILED[which]), encoded=[form()])
    found = parse_manifest(data, LIMITS, expected_digest=None)
    assert set(found.layers) == {"config", "weights"}
    assert found.encoded_for(BASE) is None


def test_encoded_form_can_not_pass_for_a_file_of_the_adapter():
    named = {"annotations": {"org.cncf.model.filepath": WEIGHTS}}
    data = manifest(change=set_layer(2, **named), encoded=[form()])
    assert "the same file name" in failure(data).message


def index(*tags):
    return json.dumps(
        {
            "manifests": [
                {
                    "digest": f"sha256:{number:064x}",
                    "size": 1,
                    **({"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}),
                }
                for number, tag in enumerate(tags)
            ]
        }
    ).encode()


@pytest.mark.parametrize(
    ("tags", "reference", "chosen"),
    [
        (("v1", "latest"), "usb/mail", 1),
        (("v1", "latest"), "usb/mail:v1", 0),
        (("v1",), "usb/mail", 0),
        ((None,), "usb/mail", 0),
        (("v1", "v2"), "usb/mail", None),
        (("v1",), "usb/mail:v2", None),
        ((None,), "usb/mail:latest", None),
        ((), "usb/mail", None),
    ],
)
def test_a_tag_or_the_only_manifest_is_chosen(tags, reference, chosen):
    if chosen is None:
        with pytest.raises(RemoteFailure) as caught:
            choose_manifest(index(*tags), parse_reference(reference))
        assert caught.value.kind is FailureKind.ABSENT
    else:
        digest = choose_manifest(index(*tags), parse_reference(reference))
        assert digest == f"sha256:{chosen:064x}"


@pytest.mark.parametrize("data", [b"{}", b'{"manifests": {}}', b'{"manifests": [1]}', b"x"])
def test_an_index_that_is_none_is_unusable(data):
    with pytest.raises(RemoteFailure) as caught:
        choose_manifest(data, parse_reference("usb/mail"))
    assert caught.value.kind is FailureKind.UNUSABLE
