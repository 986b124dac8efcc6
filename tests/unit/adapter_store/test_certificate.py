"""The certificate's document: one form, read back strictly."""

import dataclasses
import hashlib
import json

import pytest

from services.adapter_store.verification.certificate import (
    VERSION,
    Canary,
    CanaryLogit,
    Certificate,
    Divergence,
    Encoding,
    LayerDelta,
    Measurement,
    TaskMetric,
)

DIVERGENCE = Divergence(positions=104, mean_kl=0.01, max_kl=0.1, top1_agreement=0.99)
CERTIFICATE = Certificate(
    version=VERSION,
    edgelora="1.2.3",
    adapter_digest="sha256:" + "a" * 64,
    base_digest="sha256:" + "b" * 64,
    sandbox="landlock+seccomp",
    tensors=8,
    parameters=4096,
    layer_deltas=(LayerDelta(layer=0, norm=1.5), LayerDelta(layer=1, norm=0.1)),
    encoding=Encoding(
        codec="edgelora",
        version=1,
        bits=3.2,
        bits_per_parameter=3.21,
        num_bytes=1643,
        sha256="c" * 64,
        relative_error=0.12,
    ),
    why_exact="",
    measurement=Measurement(
        engine="e",
        original="o",
        probe="p",
        divergence=DIVERGENCE,
        task=TaskMetric(
            lines=3,
            before=1.0,
            after=0.5,
            tokens_right=9,
            tokens_lost=2,
            tokens_gained=1,
            divergence=DIVERGENCE,
        ),
        canary=Canary(
            token_ids=(1, 2),
            largest=(CanaryLogit(token_id=7, logit=1.25),),
            largest_change=0.5,
        ),
    ),
    why_not_measured="",
)


def test_comes_back_as_it_was():
    data = CERTIFICATE.canonical_bytes()
    assert Certificate.from_bytes(data) == CERTIFICATE
    assert Certificate.from_bytes(data).canonical_bytes() == data
    assert CERTIFICATE.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_document_is_one_line_of_sorted_ascii():
    data = CERTIFICATE.canonical_bytes()
    assert b" " not in data
    document = json.loads(data)
    assert list(document) == sorted(document)
    assert data.isascii()


def test_unmeasured_one_comes_back_too():
    bare = dataclasses.replace(
        CERTIFICATE,
        encoding=None,
        measurement=None,
        why_exact="no native core",
        why_not_measured="no native core",
    )
    assert Certificate.from_bytes(bare.canonical_bytes()) == bare
    assert bare.digest != CERTIFICATE.digest


def changed(path: tuple, value: object) -> bytes:
    document = json.loads(CERTIFICATE.canonical_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tensors",), "8"),
        (("tensors",), 8.0),
        (("tensors",), True),
        (("tensors",), None),
        (("tensors",), ...),
        (("more",), 1),
        (("layer_deltas",), {}),
        (("layer_deltas", 0), 1),
        (("layer_deltas", 0, "norm"), float("nan")),
        (("layer_deltas", 0, "norm"), float("inf")),
        (("layer_deltas", 0, "norm"), 1),
        (("encoding", "sha256"), 5),
        (("measurement", "task", "divergence"), None),
        (("measurement", "canary", "largest", 0, "logit"), "x"),
    ],
)
def test_any_other_form_is_refused(path, value):
    with pytest.raises(ValueError, match="not "):
        Certificate.from_bytes(changed(path, value))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", CERTIFICATE.canonical_bytes()[:-1]])
def test_what_is_no_certificate_is_refused(data):
    with pytest.raises(ValueError):
        Certificate.from_bytes(data)
