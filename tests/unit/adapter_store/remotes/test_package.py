import json

import pytest

from edgelora.adapter_package import Blob, package_documents
from services.adapter_store.remotes.failures import FailureKind, RemoteFailure
from services.adapter_store.remotes.package import (
    PackageLimits,
    choose_manifest,
    parse_manifest,
    sha256_digest,
)
from services.adapter_store.remotes.reference import parse_reference

LIMITS = PackageLimits(config=100, weights=1000, probe=50)
CONFIG, WEIGHTS, PROBE = "adapter_config.json", "adapter_model.safetensors", "probe.jsonl"
FILES = {CONFIG: Blob.of(b"c" * 100), WEIGHTS: Blob.of(b"w" * 1000)}


def manifest(files=None, change=lambda document: None):
    document = json.loads(package_documents(FILES if files is None else files)[1])
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
