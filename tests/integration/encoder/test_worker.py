"""An encoder worker over a real socket, with real back ends and a stand-in store."""

import asyncio
import random
import re
from pathlib import Path

import grpc
import numpy as np
import pytest

from edgelora.errors import (
    AdapterIncompatibleError,
    AdapterNotFoundError,
    AdapterRejectedError,
    DataCorruptError,
    InternalError,
    InvalidRequestError,
    PermissionDeniedError,
    QueueFullError,
    TicketExpiredError,
    UnauthenticatedError,
    from_rpc_error,
)
from edgelora.v1 import encoder_service_pb2 as pb
from edgelora.v1.adapter_store_service_pb2 import WarmUp
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.ticket_pb2 import WarmUpPermit
from services.chassis.sealing import Sealer, boot_clock_s
from services.chassis.settings import ConfigError
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.support.adapter_files import AdapterFiles, safetensors_bytes
from tests.support.encoder_bench import (
    classifier,
    embedder,
    encoder_bench,
    labels_of,
    linear_probe,
    read_files,
)
from tests.support.free_port import free_port
from tests.support.prometheus import families, samples, scrape
from tests.support.tiny_encoder import CONTEXT, HIDDEN, WORDS, encoder_config, encoder_tensors
from tests.support.worker_bench import make_ticket

pytestmark = pytest.mark.integration

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/metrics.md"
TEXT = "please tell me about the weather"


async def error_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


def bench_of(tiny, backend=None, **settings):
    return encoder_bench(backend or TorchEncoderBackend(num_threads=1), tiny, **settings)


def answers(response):
    """[(label, probability)...] of each text."""
    return [
        [(each.label, each.probability) for each in found.labels]
        for found in response.classifications
    ]


def some_texts(rng, count):
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 20))) for _ in range(count)]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_classes_of_8_adapters_of_several_tenants_are_those_of_each_alone(
    tiny, backend, is_shared
):
    """Random mixes in one step; on the native core the same bits, on torch the same numbers."""
    rng = random.Random(5)
    settings = {"MAX_LORAS": "8", "is_shared": is_shared}
    async with bench_of(tiny, backend, **settings) as bench:
        made = [
            (classifier if seed % 4 else linear_probe)(
                seed, num_labels=3 + seed, pooling=["mean", "cls", "pooler"][seed % 3]
            )
            for seed in range(8)
        ]
        digests = [bench.put(files) for files in made]

        def call(job):
            seed, texts, strength, priority = job
            return bench.classify(
                texts,
                digests[seed],
                strength=strength,
                top_labels=99,
                tenant_id=f"tenant-{seed % 3}",
                priority=priority,
            )

        jobs = [
            (
                rng.randrange(8),
                some_texts(rng, rng.choice([1, 1, 2, 9])),
                rng.choice([0.0, 0.5, 1.0, 1.0, 2.0]),
                rng.choice([1, 2, 3]),
            )
            for _ in range(40)
        ]
        together = await asyncio.gather(*map(call, jobs))
        num_steps = (await bench.status()).num_steps
        for job, response in zip(jobs, together, strict=True):
            seed, texts, *_ = job
            alone = [await call((seed, [text], *job[2:])) for text in texts]
            for found, single in zip(answers(response), alone, strict=True):
                (expected,) = answers(single)
                assert {label for label, _ in found} == set(labels_of(seed, 3 + seed))
                assert sum(probability for _, probability in found) == pytest.approx(1.0)
                if backend.name == "native":
                    assert found == expected
                else:
                    assert dict(found) == pytest.approx(dict(expected), abs=1e-5)
        assert num_steps < sum(len(texts) for _, texts, *_ in jobs) / 2
        await bench.rest()
        assert (await bench.status()).num_resident_adapters == 8


async def test_more_adapters_than_slots_all_get_their_answers(tiny, backend):
    async with bench_of(tiny, backend, MAX_LORAS="2") as bench:
        digests = [bench.put(classifier(seed)) for seed in range(6)]
        calls = [bench.classify([TEXT], digests[number % 6]) for number in range(36)]
        for number, response in enumerate(await asyncio.gather(*calls)):
            assert answers(response)[0][0][0] in labels_of(number % 6, 5)
        await bench.rest()
        assert (await bench.status()).num_resident_adapters == 2


async def test_probabilities_are_those_of_the_head_over_the_adapted_vector(tiny, backend):
    async with bench_of(tiny, backend) as bench:
        files = classifier(3, normalise=False)
        head = read_files(files).head
        digest = bench.put(files)
        (found,) = answers(await bench.classify([TEXT], digest, top_labels=5))
        unit = (await bench.embed([TEXT], {digest: 1.0}))[0]
        # The length of the vector is all that an embedding does not tell.
        logits = np.array([np.log(dict(found)[label]) for label in head.labels])
        design = np.stack([head.weight @ unit, np.ones(5)], axis=1)
        _, residual, *_ = np.linalg.lstsq(design, logits - head.bias, rcond=None)
        assert residual < 1e-6


async def test_embeddings_have_length_1_and_change_with_the_adapter(tiny, backend):
    async with bench_of(tiny, backend) as bench:
        digest = bench.put(embedder(1))
        base = await bench.embed([TEXT, "play some song"])
        assert base.shape == (2, HIDDEN)
        assert np.linalg.norm(base, axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)
        assert np.array_equal(await bench.embed([TEXT, "play some song"], {digest: 0.0}), base)
        half, whole = [await bench.embed([TEXT], {digest: weight}) for weight in (0.5, 1.0)]
        assert np.abs(whole - base[0]).max() > np.abs(half - base[0]).max() > 1e-3
        error = await error_of(bench.classify([TEXT], digest))
        assert isinstance(error, InvalidRequestError)
        assert "no classifier" in error.message


async def test_the_rule_of_the_head_says_what_is_out_of_scope(tiny):
    rule = {"label": None, "score": "max_probability", "threshold": 0.999}
    async with bench_of(tiny) as bench:
        response = await bench.classify([TEXT], bench.put(classifier(1, out_of_scope=rule)))
        assert response.classifications[0].is_out_of_scope
        response = await bench.classify([TEXT], bench.put(classifier(1)))
        assert not response.classifications[0].is_out_of_scope


async def test_usage_counts_tokens_and_texts_that_were_cut(tiny):
    async with bench_of(tiny) as bench:
        request = pb.EncoderServiceEmbedRequest(
            ticket=bench.ticket(), texts=["tell me", "tell " * 500]
        )
        response = await bench.stub.Embed(request)
        assert response.usage.num_tokens == 4 + CONTEXT
        assert response.usage.num_truncated_texts == 1
        spent_s = response.engine_time.ToNanoseconds() / 1e9
        total_s = (await bench.status()).step_time.ToNanoseconds() / 1e9
        assert 0 < spent_s <= total_s + 1e-6


async def test_limits_are_refused_with_the_field(tiny):
    async with bench_of(tiny) as bench:
        digest = bench.put(classifier(1))
        for texts, top_labels, field in (
            ([], 1, "texts"),
            (["a"] * 65, 1, "texts"),
            (["a", ""], 1, "texts[1]"),
            (["a" * 100_001], 1, "texts[0]"),
            (["a"], 0, "top_labels"),
            (["a"], 1001, "top_labels"),
            (["a"] * 64, 79, "top_labels"),
        ):
            error = await error_of(bench.classify(texts, digest, top_labels=top_labels))
            assert isinstance(error, InvalidRequestError)
            assert error.field == field
        assert bench.shelf.fetched == []


async def test_classes_need_exactly_one_adapter_at_a_known_strength(tiny):
    async with bench_of(tiny) as bench:
        digests = [bench.put(classifier(seed)) for seed in range(2)]
        for adapters in ({}, dict.fromkeys(digests, 1.0), {digests[0]: 2.5}):
            request = pb.EncoderServiceClassifyRequest(
                ticket=bench.ticket(adapters), texts=["a"], top_labels=1
            )
            assert isinstance(await error_of(bench.stub.Classify(request)), InvalidRequestError)


async def test_bad_tickets_run_nothing(tiny):
    async with bench_of(tiny) as bench:
        num_steps = (await bench.status()).num_steps
        for changes, error in (
            ({"worker": "another"}, PermissionDeniedError),
            ({"task": Task.TASK_GENERATE}, PermissionDeniedError),
            ({"task": Task.TASK_UNSPECIFIED}, PermissionDeniedError),
            ({"expires_at_boot_s": boot_clock_s() - 1}, TicketExpiredError),
            ({"sealer": Sealer(b"another seal key of 32 characters")}, UnauthenticatedError),
            ({"priority": 9}, InvalidRequestError),
        ):
            sealer = changes.pop("sealer", bench.sealer)
            ticket = make_ticket(sealer, **{"task": Task.TASK_ENCODE} | changes)
            for call in (
                bench.stub.Embed(pb.EncoderServiceEmbedRequest(ticket=ticket, texts=["a"])),
                bench.stub.Classify(
                    pb.EncoderServiceClassifyRequest(ticket=ticket, texts=["a"], top_labels=1)
                ),
            ):
                assert isinstance(await error_of(call), error)
        assert (await bench.status()).num_steps == num_steps


async def test_a_tenant_without_the_adapter_gets_what_the_store_says(tiny):
    async with bench_of(tiny) as bench:
        error = await error_of(bench.classify([TEXT], "sha256:" + "a" * 64))
        assert isinstance(error, AdapterNotFoundError)
        assert (await bench.status()).num_resident_adapters == 0


def zeros_at_the_canary():
    tensors = encoder_tensors(("query",), num_labels=3)
    return {
        name: values * 1e-12 if "lora_B" in name else values for name, values in tensors.items()
    }


REFUSED = {
    "no effect": (
        AdapterRejectedError,
        "changes nothing",
        AdapterFiles(encoder_config(("query",)), safetensors_bytes(zeros_at_the_canary())),
    ),
    "above the rank of the slots": (AdapterRejectedError, "rank", classifier(1, rank=32)),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_adapter_that_can_not_serve_is_refused_remembered_and_reported(tiny, name):
    error_class, words, files = REFUSED[name]
    async with bench_of(tiny) as bench:
        digest = bench.put(files)
        for _ in range(2):
            error = await error_of(bench.classify([TEXT], digest))
            assert isinstance(error, error_class)
            assert words in error.message
        assert bench.shelf.fetched == [digest]
        report = await bench.shelf.report_where(lambda report: report.refused)
        assert report.refused[0].digest == digest
        assert report.task == Task.TASK_ENCODE
        good = bench.put(classifier(7))
        assert answers(await bench.classify([TEXT], good))[0][0][0] in labels_of(7, 5)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_damaged_files_are_never_served_A16(tiny, is_shared):
    async with bench_of(tiny, is_shared=is_shared) as bench:
        for seed, part in enumerate(("weights", "head", "no head")):
            files = classifier(seed)
            digest = bench.put(files)
            if part == "weights":
                data = files.weights
                changed = AdapterFiles(
                    files.config, data[:-1] + bytes([data[-1] ^ 1]), head=files.head
                )
            else:
                head = b"" if part == "no head" else files.head.replace(b'-0"', b'-9"')
                changed = AdapterFiles(files.config, files.weights, head=head)
            bench.shelf.files[digest] = changed
            error = await error_of(bench.classify([TEXT], digest))
            assert isinstance(error, DataCorruptError)
        assert (await bench.status()).num_resident_adapters == 0


async def test_an_adapter_of_a_decoder_does_not_fit(tiny):
    files = AdapterFiles(
        encoder_config(("q_proj",)),
        safetensors_bytes(
            {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": np.ones((4, HIDDEN))}
        ),
    )
    async with bench_of(tiny) as bench:
        digest = bench.shelf.add(files, "sha256:" + "b" * 64)
        error = await error_of(bench.classify([TEXT], digest))
        assert isinstance(error, (AdapterIncompatibleError, AdapterRejectedError))


async def test_a_client_that_leaves_takes_its_request_along(tiny):
    async with bench_of(tiny) as bench:
        digest = bench.put(classifier(1))
        bench.shelf.gate.clear()
        leaving = asyncio.ensure_future(bench.classify([TEXT], digest))
        staying = asyncio.ensure_future(bench.classify([TEXT], digest, tenant_id="other"))
        await bench.shelf.fetch_of(digest)
        leaving.cancel()
        while bench.engine.num_open_requests != 1:
            await bench.status()
        bench.shelf.gate.set()
        assert answers(await staying)
        await bench.rest()


async def test_a_full_queue_refuses_with_a_delay(tiny):
    async with bench_of(tiny, MAX_REQUESTS="2") as bench:
        digest = bench.put(classifier(1))
        bench.shelf.gate.clear()
        held = [asyncio.ensure_future(bench.classify([TEXT], digest)) for _ in range(2)]
        while bench.engine.num_open_requests != 2:
            await bench.status()
        error = await error_of(bench.embed([TEXT]))
        assert isinstance(error, QueueFullError)
        assert error.retry_after_s
        bench.shelf.gate.set()
        await asyncio.gather(*held)
        await bench.embed([TEXT])


async def test_residency_pins_deletions_and_warm_ups_go_by_the_store(tiny):
    async with bench_of(tiny, MAX_LORAS="1", RESIDENCY_INTERVAL="50ms") as bench:
        first, second = bench.put(classifier(1)), bench.put(classifier(2))
        await bench.classify([TEXT], first)
        report = await bench.shelf.report_where(
            lambda report: [each.digest for each in report.adapters] == [first]
        )
        assert report.adapters[0].size_bytes > 5 * HIDDEN * 4
        bench.shelf.deleted.add(first)
        await bench.shelf.report_where(lambda report: not report.adapters)
        permit = bench.sealer.seal(WarmUpPermit(digest=second, worker="w0"))
        bench.shelf.warm_ups.append(WarmUp(digest=second, permit=permit))
        report = await bench.shelf.report_where(
            lambda report: (
                [each.digest for each in report.adapters if not each.is_loading] == [second]
            )
        )
        num_fetched = len(bench.shelf.fetched)
        assert answers(await bench.classify([TEXT], second))
        assert len(bench.shelf.fetched) == num_fetched


async def test_the_worker_says_what_it_is(tiny, backend):
    async with bench_of(tiny, backend) as bench:
        found = await bench.stub.GetEncoder(pb.GetEncoderRequest())
        assert (found.name, found.family, found.hidden_size) == ("tiny-encoder", "bert", HIDDEN)
        assert found.backend == backend.name
        assert found.max_context_tokens == CONTEXT
        assert found.max_lora_rank == 16
        status = await bench.status()
        assert status.num_adapter_slots == 4
        assert status.weights_bytes == found.weights_bytes > 0


class Overflowing(TorchEncoderBackend):
    """A model without one number."""

    def encode(self, texts):
        return np.full_like(super().encode(texts), np.nan)


async def test_a_model_that_gives_no_numbers_is_a_clear_line_at_the_start(tiny):
    with pytest.raises(ConfigError, match="MODEL_DIRECTORY: the model's output was not a number"):
        async with bench_of(tiny, Overflowing(num_threads=1)):
            pass


async def test_an_engine_that_dies_ends_its_calls_and_the_worker_S09(tiny):
    backend = TorchEncoderBackend(num_threads=1)
    async with bench_of(tiny, backend) as bench:

        def exit_at_once(texts):
            raise SystemExit

        backend.encode = exit_at_once
        calls = [bench.embed([TEXT]) for _ in range(3)]
        for error in await asyncio.gather(*map(error_of, calls)):
            assert isinstance(error, InternalError)
        assert await bench.worker.wait_for_end()


async def test_metrics_tell_what_the_worker_does_and_the_document_lists_them(tiny):
    address = f"127.0.0.1:{free_port()}"
    async with bench_of(tiny, METRICS_ADDRESS=address) as bench:
        before = samples(await asyncio.to_thread(scrape, address))
        digest = bench.put(classifier(1))
        usage = (await bench.classify([TEXT, TEXT], digest)).usage
        await bench.rest()
        text = await asyncio.to_thread(scrape, address)
        values = samples(text)

    def since(series):
        return values[series] - before[series]

    assert since("edgelora_encoder_tokens_total") == usage.num_tokens
    assert since("edgelora_encoder_batch_texts_sum") == 2
    assert since("edgelora_encoder_step_seconds_count") == 1
    assert values["edgelora_encoder_requests"] == 0
    assert values["edgelora_encoder_failed_texts_total"] == 0
    assert values['edgelora_encoder_adapter_slots_taken{state="resident"}'] == 1
    assert values["edgelora_encoder_stalled_seconds"] == 0
    assert values['edgelora_encoder_memory_bytes{of="weights"}'] > 0
    own = {name: kind for name, kind in families(text).items() if "_encoder_" in name}
    section = re.search(r"^## encoder\n(.*?)^## ", DOCUMENT.read_text(), re.M | re.S)[1]
    assert dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.M)) == own
