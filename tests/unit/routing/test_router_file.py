"""The router file: a round trip, and files that are none."""

import json
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from edgelora.routing import Router, RouterFile, RouterFileError
from edgelora.routing.network import MAX_BUCKETS, MAX_SIZE, Weights
from edgelora.routing.router_file import MAX_FILE_BYTES, decode_router_file
from tests.support.routers import random_twin

FILE = RouterFile(random_twin().weights(), 0.25)
GOOD = FILE.encoded()


def split(data):
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(header, body):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def with_metadata(**changes):
    header, body = split(GOOD)
    header["__metadata__"] = {
        key: value for key, value in (header["__metadata__"] | changes).items() if value is not None
    }
    return join(header, body)


def with_entry(name, **changes):
    header, body = split(GOOD)
    header[name] |= changes
    return join(header, body)


def with_weights(**changes):
    return RouterFile(replace(FILE.weights, **changes), 0.25).encoded()


def without(name):
    parts = {one.name: getattr(FILE.weights, one.name) for one in fields(Weights)}
    header, position, body = {"__metadata__": split(GOOD)[0]["__metadata__"]}, 0, b""
    for key, array in parts.items():
        if key == name:
            continue
        data = array.astype("<f2").tobytes()
        offsets = [position, position + len(data)]
        header[key] = {"dtype": "F16", "shape": array.shape, "data_offsets": offsets}
        position, body = offsets[1], body + data
    return join(header, body)


def repeated_key():
    header, body = split(GOOD)
    text = json.dumps(header).replace('"rarity":', '"rarity": {}, "rarity":', 1).encode()
    return len(text).to_bytes(8, "little") + text + body


def misfit(name):
    array = getattr(FILE.weights, name)
    return with_weights(**{name: np.concatenate([array, array])})


HOSTILE = {
    "nothing": b"",
    "few bytes": b"\x00" * 7,
    "a pickle": pickle.dumps({"embedding": [1.0]}),
    "a header longer than the file": (1 << 40).to_bytes(8, "little") + GOOD[8:],
    "half of it": GOOD[: len(GOOD) // 2],
    "one byte more": GOOD + b"\x00",
    "a header that is no JSON": (4).to_bytes(8, "little") + b"{ooo" + GOOD,
    "deep nesting": (60_000).to_bytes(8, "little") + b'{"a":' * 12_000 + b"x" * 100,
    "no metadata": with_metadata(format=None),
    "another format": with_metadata(format="pt"),
    "another version": with_metadata(version="2"),
    "no temperature": with_metadata(temperature=None),
    "a temperature that is no number": with_metadata(temperature="warm"),
    "an infinite temperature": with_metadata(temperature="inf"),
    "temperature nan": with_metadata(temperature="nan"),
    "temperature zero": with_metadata(temperature="0"),
    "metadata that is a list": join(split(GOOD)[0] | {"__metadata__": [1]}, split(GOOD)[1]),
    "a tensor less": without("text_bias"),
    "a dtype of integers": with_entry("rarity", dtype="I64"),
    "offsets that overlap": with_entry("embedding", data_offsets=[0, 8192]),
    "a shape of negative size": with_entry("rarity", shape=[-512]),
    "a shape of other dimensions": with_entry("embedding", shape=[8, 512]),
    "a vector where a matrix belongs": with_entry("embedding", shape=[4096]),
    "a name twice": repeated_key(),
    "nan": with_weights(text_bias=np.full(10, np.nan, np.float32)),
    "infinite": with_weights(base_output_bias=np.array([np.inf], np.float32)),
    "more buckets than memory is for": with_weights(
        rarity=np.ones(MAX_BUCKETS + 1, np.float32),
        embedding=np.ones((MAX_BUCKETS + 1, FILE.weights.embedding.shape[1]), np.float32),
    ),
    "a layer that takes forever": with_weights(
        candidate_hidden=np.ones((len(FILE.weights.candidate_hidden), MAX_SIZE + 1), np.float32),
        candidate_hidden_bias=np.ones(MAX_SIZE + 1, np.float32),
        candidate_output=np.ones((MAX_SIZE + 1, 1), np.float32),
    ),
    "too large": b"\x00" * (MAX_FILE_BYTES + 1),
} | {f"a misfit {one.name}": misfit(one.name) for one in fields(Weights)}


def test_a_router_comes_back(tmp_path):
    path = tmp_path / "router.safetensors"
    path.write_bytes(GOOD)
    router = Router.load(path)
    assert router.temperature == 0.25
    again = decode_router_file(GOOD)
    for one in fields(Weights):
        expected = getattr(FILE.weights, one.name)
        np.testing.assert_allclose(getattr(again.weights, one.name), expected, rtol=1e-3, atol=1e-3)
    assert again.encoded() == GOOD


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_router_is_refused(name, tmp_path):
    path = tmp_path / "router.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(RouterFileError) as refused:
        Router.load(path)
    assert "edgelora router train" in str(refused.value)
    assert "adapter_model" not in str(refused.value)
