"""Verification with the native core: the serving form, and what the certificate says of it."""

import dataclasses
import json
from importlib.util import find_spec

import numpy as np
import pytest

from edgelora.adapter_format import codec
from edgelora.errors import AdapterRejectedError
from edgelora.v1.adapter_pb2 import ServingForm
from services.adapter_store.verification.certificate import Certificate
from services.adapter_store.verification.measuring_base import open_measuring_base
from services.chassis.base_model import NATIVE_FILE
from services.chassis.channel import open_channel
from tests.integration.adapter_store.store_process import StoreClient, StoreProcess
from tests.support.adapter_verification import MODULES, verifying
from tests.support.adapter_verification import measured_adapter as adapter
from tests.support.measured_base import NUM_LAYERS, write_measured_base
from tests.support.small_tokenizer import small_tokenizer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("edgelora_native") is None, reason="run `make native` first"),
]
PROBE = (
    b'{"prompt": "<|im_start|>the weather", "answer": "please"}\n{"prompt": "a", "answer": "b"}\n'
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    return directory, write_measured_base(directory)


async def test_fewest_bits_within_the_bounds_are_taken_and_certified(model, tmp_path):
    async with verifying(model, tmp_path) as verify:
        verified = await verify(adapter())
    certificate, encoded = verified.certificate, verified.encoded
    assert Certificate.from_bytes(certificate.canonical_bytes()) == certificate
    assert certificate.adapter_digest == verified.digest
    assert certificate.base_digest == model[1].digest
    assert certificate.tensors == 2 * len(MODULES) * NUM_LAYERS
    assert certificate.parameters == verified.num_parameters
    assert [delta.layer for delta in certificate.layer_deltas] == list(range(NUM_LAYERS))
    assert certificate.sandbox == "landlock+seccomp" or certificate.sandbox == "rlimits"
    assert (certificate.why_exact, certificate.why_not_measured) == ("", "")

    blob = (tmp_path / "encoded").read_bytes()
    header = codec.read_encoded_header(blob)
    assert (header.digest, header.base_digest) == (verified.digest, model[1].digest)
    assert encoded.path == tmp_path / "encoded"
    assert (encoded.name, encoded.size_bytes) == (certificate.encoding.sha256, len(blob))
    assert certificate.encoding.bits == 3.2 == header.level
    assert certificate.encoding.bits_per_parameter == 8 * len(blob) / certificate.parameters
    assert 0 < certificate.encoding.relative_error < 0.5
    divergence = certificate.measurement.divergence
    assert 0 < divergence.mean_kl <= divergence.max_kl
    assert divergence.positions > 50
    assert certificate.measurement.task is None


async def test_same_adapter_gets_the_same_certificate_and_bytes(model, tmp_path):
    async with verifying(model, tmp_path) as verify:
        first = await verify(adapter(), PROBE)
        blob = (tmp_path / "encoded").read_bytes()
        again = await verify(adapter(), PROBE)
    assert again.certificate == first.certificate
    assert (tmp_path / "encoded").read_bytes() == blob


async def test_reference_is_what_the_encoded_form_says_in_another_engine(model, tmp_path):
    from edgelora_native import Chunk, Engine, Limits

    async with verifying(model, tmp_path) as verify:
        canary = (await verify(adapter())).certificate.measurement.canary
    engine = Engine(
        model[0] / NATIVE_FILE,
        Limits(num_kv_blocks=8, max_loras=1, max_lora_rank=8, max_step_tokens=64, num_threads=2),
    )
    engine.load_encoded(0, (tmp_path / "encoded").read_bytes())

    def answer(*adapters):
        ids = np.array(canary.token_ids, dtype=np.int32)
        chunk = Chunk(
            token_ids=ids,
            start_position=0,
            block_table=range(-(-len(ids) // 16)),
            adapters=adapters,
            needs_logits=True,
        )
        return engine.forward([chunk])[0, : model[1].vocab_size]

    adapted = answer((0, 1.0))
    assert (
        list(canary.token_ids) == small_tokenizer().encode("Tell me about the weather, please.").ids
    )
    assert len(canary.largest) == 16
    assert [each.logit for each in canary.largest] == sorted(adapted.tolist(), reverse=True)[:16]
    assert all(each.logit == adapted[each.token_id] for each in canary.largest)
    assert canary.largest_change == np.abs(adapted - answer()).max()


async def test_own_probe_is_measured_before_and_after(model, tmp_path):
    async with verifying(model, tmp_path) as verify:
        task = (await verify(adapter(), PROBE)).certificate.measurement.task
    assert task.lines == 2
    assert {task.before, task.after} <= {0.0, 0.5, 1.0}
    tokenizer = small_tokenizer()
    answers = sum(
        len(tokenizer.encode(json.loads(line)["answer"]).ids) for line in PROBE.split(b"\n")[:2]
    )
    assert task.divergence.positions == answers


async def test_tight_bound_moves_up_and_an_impossible_one_keeps_the_original(model, tmp_path):
    async with verifying(model, tmp_path) as verify:
        loose = (await verify(adapter())).certificate.measurement.divergence.mean_kl
    async with verifying(model, tmp_path, max_mean_kl=loose / 2) as verify:
        tight = (await verify(adapter())).certificate
        assert tight.encoding.bits in (4.5, 8.0)
        assert tight.measurement.divergence.mean_kl <= loose / 2
    async with verifying(model, tmp_path, max_mean_kl=0.0) as verify:
        verified = await verify(adapter())
    assert verified.encoded is None
    assert not (tmp_path / "encoded").exists()
    certificate = verified.certificate
    assert certificate.encoding is None
    assert "bounds" in certificate.why_exact
    assert certificate.measurement.divergence is None
    assert len(certificate.measurement.canary.largest) == 16


async def test_codec_off_keeps_the_original_and_still_proves_an_effect(model, tmp_path):
    async with verifying(model, tmp_path, is_encoding=False) as verify:
        verified = await verify(adapter(), PROBE)
        with pytest.raises(AdapterRejectedError, match="changes nothing"):
            await verify(adapter(scale=1e-6))
    assert verified.encoded is None
    assert verified.certificate.why_exact == "the codec is off"
    assert verified.certificate.measurement.canary.largest_change > 0


@pytest.mark.parametrize(
    ("scale", "words"),
    [(1e-6, "changes nothing"), (2e3, "overflow")],
    ids=["no effect", "overflow"],
)
async def test_adapter_that_does_nothing_or_too_much_is_refused(model, tmp_path, scale, words):
    async with verifying(model, tmp_path) as verify:
        with pytest.raises(AdapterRejectedError, match=words) as caught:
            await verify(adapter(scale=scale))
    assert caught.value.field == "weights"
    assert not (tmp_path / "encoded").exists()


@pytest.mark.parametrize(
    "probe", [b"", b"{}", b"x", b'{"prompt": "a", "answer": "' + b"b" * 200 + b'"}']
)
async def test_bad_probe_is_refused_measured_or_not(model, tmp_path, probe):
    async with verifying(model, tmp_path) as verify:
        with pytest.raises(AdapterRejectedError) as caught:
            await verify(adapter(), probe)
    assert caught.value.field == "probe"


async def test_replaced_model_file_changes_nothing(model, tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    base = write_measured_base(directory)
    async with verifying((directory, base), tmp_path) as verify:
        before = await verify(adapter())
        (directory / NATIVE_FILE).unlink()
        (directory / NATIVE_FILE).write_bytes(b"another file")
        assert (await verify(adapter())).certificate == before.certificate


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda directory: (directory / NATIVE_FILE).unlink(), "no packed weights"),
        (lambda directory: (directory / NATIVE_FILE).write_bytes(b"x"), "not what was prepared"),
        (lambda directory: (directory / "tokenizer.json").unlink(), "tokenizer.json"),
        (lambda directory: (directory / "tokenizer.json").write_text("{"), "tokenizer.json"),
    ],
)
async def test_what_can_not_be_measured_is_served_as_it_is_and_the_certificate_says_why(
    tmp_path, spoil, words
):
    directory = tmp_path / "model"
    directory.mkdir()
    base = write_measured_base(directory)
    spoil(directory)
    async with verifying((directory, base), tmp_path) as verify:
        verified = await verify(adapter())
    certificate = verified.certificate
    assert verified.encoded is None
    assert certificate.measurement is None
    assert certificate.why_exact == certificate.why_not_measured
    assert words in certificate.why_not_measured


async def test_model_of_another_shape_is_not_measured_with(model, tmp_path):
    directory, base = model
    for other in (
        dataclasses.replace(base, hidden_size=64),
        dataclasses.replace(base, num_layers=2),
        dataclasses.replace(base, vocab_size=base.vocab_size + 1000),
    ):
        async with open_measuring_base(
            other, directory, max_rank=8, is_encoding=True, max_mean_kl=1.0
        ) as found:
            assert found.measuring is None
            assert "another model" in found.why_not_measured


async def test_store_keeps_the_encoded_form_and_shows_the_certificate(tmp_path):
    process = StoreProcess(tmp_path, CODEC_MAX_KL="10")
    write_measured_base(tmp_path / "model")
    files = adapter()
    try:
        await process.start()
        async with open_channel(process.address) as channel:
            client = StoreClient(channel)
            digest = (await client.register("a", files)).adapter.digest
            found = await client.get("a", digest)
    finally:
        process.close()
    told = found.certificate
    certificate = Certificate.from_bytes(told.document.encode())
    assert found.certificate_digest == certificate.digest
    assert certificate.adapter_digest == digest
    assert told.form == ServingForm.SERVING_FORM_ENCODED_3
    assert told.mean_kl == certificate.measurement.divergence.mean_kl
    assert [each.token_id for each in told.canary] == [
        each.token_id for each in certificate.measurement.canary.largest
    ]
    assert [blob.name for blob in process.blobs()] == [certificate.encoding.sha256]
    assert found.flash_bytes == certificate.encoding.num_bytes < len(files.weights)
