"""Encoded adapters on their way from the store into a slot of a worker."""

import hashlib
import json

import grpc
import pytest

from edgelora.errors import (
    AdapterRejectedError,
    DataCorruptError,
    InvalidRequestError,
    from_rpc_error,
)
from edgelora.v1.adapter_pb2 import AdapterCertificate, CanaryLogit
from services.chassis.settings import ConfigError
from tests.support.adapter_files import TINY_TARGETS
from tests.support.encoded_adapters import random_encoded
from tests.support.worker_bench import worker_bench

pytestmark = pytest.mark.integration

DIGESTS = ["sha256:" + f"{number:064x}" for number in range(4)]
BASE_DIGEST = "sha256:" + "0" * 64


def encoded(digest, *, base_digest=BASE_DIGEST):
    ranks = {(0, "q_proj"): 3, (1, "o_proj"): 2}
    return random_encoded(
        ranks, TINY_TARGETS, seed=int(digest[-1]), digest=digest, base_digest=base_digest
    )


@pytest.fixture(params=["mapped", "streamed"])
async def bench(request):
    async with worker_bench(is_shared=request.param == "mapped") as made:
        for digest in DIGESTS:
            made.shelf.encoded[digest] = encoded(digest)
        yield made


async def error_of(bench, *digests):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.generate(adapters=dict.fromkeys(digests, 1.0))
    return from_rpc_error(caught.value)


async def test_they_change_the_answer_and_are_reported_with_what_they_took(bench):
    base = await bench.generate()
    one = await bench.generate(adapters={DIGESTS[1]: 1.0})
    assert one.text != base.text
    assert bench.shelf.fetched == [DIGESTS[1]]
    await bench.shelf.report_where(lambda _: any(each.loads for each in bench.shelf.reports))
    (load,) = [load for report in bench.shelf.reports for load in report.loads]
    assert load.digest == DIGESTS[1]
    assert load.bytes_read == len(bench.shelf.encoded[DIGESTS[1]])
    assert load.is_warm_up is False
    stages = load.stages
    assert min(stages.fetch_s, stages.check_s, stages.decode_s, stages.prove_s) > 0
    assert stages.remote_s == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data + b"\0" * 10**7,
    ],
)
async def test_damaged_bytes_are_never_served_A16(bench, damage):
    bench.shelf.damage = damage
    assert isinstance(await error_of(bench, DIGESTS[1]), DataCorruptError)
    assert (await bench.rest()).num_resident_adapters == 0


async def test_another_adapter_or_base_model_under_the_digest_is_refused(bench):
    bench.shelf.encoded[DIGESTS[1]] = encoded(DIGESTS[2])
    bench.shelf.encoded[DIGESTS[3]] = encoded(DIGESTS[3], base_digest="sha256:" + "1" * 64)
    for digest, words in ((DIGESTS[1], "another adapter"), (DIGESTS[3], "another base model")):
        error = await error_of(bench, digest)
        assert isinstance(error, DataCorruptError)
        assert words in error.message


def certificate(bench, digest, canary):
    name = hashlib.sha256(bench.shelf.encoded[digest]).hexdigest()
    return AdapterCertificate(document=json.dumps({"encoding": {"sha256": name}}), canary=canary)


async def test_an_answer_other_than_the_certificates_refuses_the_adapter(bench):
    canary = [CanaryLogit(token_id=n, logit=float(n)) for n in range(16)]
    bench.shelf.certificates[DIGESTS[1]] = certificate(bench, DIGESTS[1], canary)
    error = await error_of(bench, DIGESTS[1])
    assert isinstance(error, AdapterRejectedError)
    assert "when it was registered" in error.message
    assert (await bench.rest()).num_resident_adapters == 0


async def test_a_certificate_of_another_vocabulary_is_damaged(bench):
    canary = [CanaryLogit(token_id=10**6, logit=1.0)]
    bench.shelf.certificates[DIGESTS[1]] = certificate(bench, DIGESTS[1], canary)
    assert isinstance(await error_of(bench, DIGESTS[1]), DataCorruptError)


@pytest.mark.parametrize(
    "document", ["", "{}", "[1]", '{"encoding":null}', '{"encoding":{"sha256":1}}']
)
async def test_a_stream_whose_certificate_does_not_name_the_file_is_refused(document):
    async with worker_bench() as bench:
        bench.shelf.encoded[DIGESTS[1]] = encoded(DIGESTS[1])
        bench.shelf.certificates[DIGESTS[1]] = AdapterCertificate(document=document)
        assert isinstance(await error_of(bench, DIGESTS[1]), DataCorruptError)


async def test_a_memory_budget_bounds_what_is_kept_and_combined():
    # One slot holds at most 100 bytes, an adapter of rank 3 takes 30.
    async with worker_bench(MAX_LORAS="4", ADAPTER_MEMORY_SIZE="165") as bench:
        for digest in DIGESTS:
            bench.shelf.encoded[digest] = encoded(digest)
        for digest in DIGESTS:
            await bench.generate(adapters={digest: 1.0})
        assert (await bench.rest()).num_resident_adapters == 3
        error = await error_of(bench, *DIGESTS[:2])
        assert isinstance(error, InvalidRequestError)
        assert "at most 1" in error.message


async def test_a_budget_below_one_adapter_names_the_setting():
    with pytest.raises(ConfigError, match=r"ADAPTER_MEMORY_SIZE: .* at least 100 bytes"):
        async with worker_bench(ADAPTER_MEMORY_SIZE="99"):
            pass
