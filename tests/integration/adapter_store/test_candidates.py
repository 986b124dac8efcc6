"""Encoded forms that somebody else made: taken when they are good, without effect when not."""

import hashlib
import struct
from dataclasses import replace
from importlib.util import find_spec

import pytest

from edgelora.adapter_format import (
    AdapterWeights,
    adapter_digest,
    codec,
    parse_adapter_config,
    read_adapter,
)
from edgelora.errors import AdapterRejectedError
from services.adapter_store.verification.orders import KnownForm
from services.adapter_store.verification.serving_form import MAX_CANDIDATE_ERROR
from services.adapter_store.verification.verifier import EncodedBlob
from tests.support.adapter_verification import MODULES, measured_adapter, verifying
from tests.support.encoded_adapters import random_encoded
from tests.support.measured_base import NUM_LAYERS, TARGETS, write_measured_base

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("edgelora_native") is None, reason="run `make native` first"),
]
FILES = measured_adapter()
BASE_DIGEST = "sha256:" + "5" * 64
CONFIG, WEIGHTS = read_adapter(
    FILES.config, FILES.weights, targets=TARGETS, num_layers=NUM_LAYERS, max_rank=64
)


def digest_of(files):
    return adapter_digest(parse_adapter_config(files.config, max_rank=64), files.weights)


DIGEST = digest_of(FILES)


def encoded(weights=WEIGHTS, *, digest=DIGEST, base_digest=BASE_DIGEST, level=4.5):
    return codec.encode(weights, digest=digest, base_digest=base_digest, level=level)


def scaled(factor):
    """The adapter, but stronger or weaker."""
    return AdapterWeights(
        {key: replace(pair, scaling=pair.scaling * factor) for key, pair in WEIGHTS.pairs.items()}
    )


def only(*modules):
    return AdapterWeights({key: pair for key, pair in WEIGHTS.pairs.items() if key[1] in modules})


def other_weights():
    files = measured_adapter(seed=1)
    return read_adapter(
        files.config, files.weights, targets=TARGETS, num_layers=NUM_LAYERS, max_rank=64
    )[1]


def patched(at, kind, value, data=None):
    data = bytearray(encoded() if data is None else data)
    struct.pack_into(kind, data, at, value)
    return bytes(data)


def claiming_to_be_ours(data):
    """With the header of a good form, but for what has to be true of the rest."""
    header = bytearray(encoded()[:128])
    for start, end in ((12, 32), (40, 44)):  # counts, length, largest rank
        header[start:end] = data[start:end]
    return bytes(header) + data[128:]


def many_components():
    """More than the adapter has, in as few bits as there can be."""
    shapes = {name: TARGETS[name] for name in MODULES}
    ranks = {(layer, name): 8 for layer in range(NUM_LAYERS) for name in MODULES}
    return random_encoded(ranks | {(0, "q_proj"): 64}, shapes)


LIES = {
    "of another adapter": lambda: encoded(other_weights(), digest="sha256:" + "7" * 64),
    "of another adapter under our name": lambda: encoded(other_weights()),
    "of another base model": lambda: encoded(base_digest="sha256:" + "6" * 64),
    "three times as strong": lambda: encoded(scaled(3.0)),
    "hardly there": lambda: encoded(scaled(0.1)),
    "without most modules": lambda: patched(
        32, "<Q", codec.read_encoded_header(encoded()).num_parameters, encoded(only("k_proj"))
    ),
    "of other modules' sizes": lambda: claiming_to_be_ours(
        random_encoded({(0, "q_proj"): 8}, {"q_proj": (448, 128)})
    ),
    "of a layer that is not adapted": lambda: claiming_to_be_ours(
        random_encoded({(7, "q_proj"): 8}, {"q_proj": TARGETS["q_proj"]})
    ),
    "of more components": lambda: claiming_to_be_ours(many_components()),
    "of random levels": lambda: claiming_to_be_ours(
        random_encoded(
            {(layer, name): 8 for layer in range(NUM_LAYERS) for name in MODULES},
            {name: TARGETS[name] for name in MODULES},
        )
    ),
    "of another version": lambda: patched(8, "<I", 2),
    "with a bit flipped in its header": lambda: patched(12, "<I", 1 << 20),
    "with a scale that is none": lambda: patched(
        128 + 20 * len(MODULES) * NUM_LAYERS, "<H", 0x7C00
    ),
    "with a scaling that is none": lambda: patched(144, "<f", float("nan")),
    "with a byte more": lambda: encoded() + b"\0",
    "with a byte less": lambda: encoded()[:-1],
    "cut in its header": lambda: encoded()[:100],
    "a byte": lambda: b"\0",
    "noise": lambda: hashlib.shake_128(b"noise").digest(40_000),
    "the original": lambda: FILES.weights,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    return directory, write_measured_base(directory)


@pytest.fixture
async def verify(model, tmp_path):
    async with verifying(model, tmp_path) as found:
        yield found


async def test_good_form_is_taken_as_it_is_and_measured(verify):
    candidate = encoded(level=4.5)
    verified = await verify(FILES, candidate=candidate)
    assert verify.encoded.read_bytes() == candidate
    assert verified.digest == DIGEST
    found = verified.certificate.encoding
    assert (found.bits, found.num_bytes) == (4.5, len(candidate))
    assert found.sha256 == verified.encoded.name == hashlib.sha256(candidate).hexdigest()
    assert 0 < found.relative_error < MAX_CANDIDATE_ERROR
    measured = verified.certificate.measurement
    assert measured.divergence.positions > 50
    # What is certified of bytes does not depend on who made them.
    own = await verify(FILES, candidate=encoded(level=3.2))
    assert own.certificate == (await verify(FILES)).certificate
    assert own.certificate.measurement != measured


async def test_form_that_is_no_good_makes_no_difference(verify):
    honest = await verify(FILES)
    assert honest.certificate.encoding.bits == 3.2
    for lie, make in LIES.items():
        verified = await verify(FILES, candidate=make())
        assert verified.certificate == honest.certificate, lie
        assert verify.encoded.read_bytes() == encoded(level=3.2), lie


async def test_form_outside_the_bounds_is_not_taken(model, tmp_path):
    async with verifying(model, tmp_path, max_mean_kl=0.0) as verify:
        verified = await verify(FILES, candidate=encoded(level=8.0))
        assert verified.encoded is None
        assert not verify.encoded.exists()
    assert "bounds" in verified.certificate.why_exact


async def test_form_is_not_looked_at_when_the_codec_is_off(model, tmp_path):
    async with verifying(model, tmp_path, is_encoding=False) as verify:
        assert not verify.verifier.is_encoding
        verified = await verify(FILES, candidate=encoded())
    assert verified.encoded is None


async def test_bad_adapter_is_refused_whatever_comes_with_it(verify):
    weak = measured_adapter(scale=1e-6)
    with pytest.raises(AdapterRejectedError, match="changes nothing"):
        await verify(weak, candidate=encoded(digest=digest_of(weak)))
    assert not verify.encoded.exists()


@pytest.mark.parametrize("level", codec.LEVELS)
async def test_known_form_is_made_again_without_measuring(verify, level):
    data = encoded(level=level)
    known = KnownForm(bits=level, sha256=hashlib.sha256(data).hexdigest())
    found = await verify.again(FILES, known)
    assert found == EncodedBlob(name=known.sha256, path=verify.encoded, size_bytes=len(data))
    assert verify.encoded.read_bytes() == data


async def test_form_that_can_not_be_made_again_is_verified_as_if_it_were_new(verify):
    certificate = (await verify(FILES)).certificate
    other = await verify.again(measured_adapter(seed=1), KnownForm(bits=3.2, sha256="0" * 64))
    assert other.digest != DIGEST
    unknown = await verify.again(FILES, KnownForm(bits=4.5, sha256="0" * 64))
    assert unknown.certificate == certificate
