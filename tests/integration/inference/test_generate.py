"""Generate over a real socket: events, options, bad input, tickets."""

import asyncio
import math
import threading

import grpc
import pytest

from edgelora.errors import from_rpc_error
from edgelora.v1 import inference_service_pb2 as pb
from edgelora.v1.encoding_pb2 import Task
from edgelora.v1.generation_pb2 import FINISH_REASON_LENGTH, FINISH_REASON_STOP
from services.chassis.sealing import Sealer, boot_clock_s
from tests.support.adapter_files import good_adapter
from tests.support.small_tokenizer import small_tokenizer
from tests.support.worker_bench import make_request, make_ticket, worker_bench

pytestmark = pytest.mark.integration
TOKENIZER = small_tokenizer()


@pytest.fixture
async def bench():
    async with worker_bench() as made:
        yield made


async def error_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    return from_rpc_error(caught.value)


async def test_started_deltas_finished(bench):
    answer = await bench.generate("please sing")
    prompt = TOKENIZER.encode("please sing").ids
    assert answer.started.num_prompt_tokens == len(prompt)
    assert answer.finished.finish_reason == FINISH_REASON_LENGTH
    assert len(answer.token_ids) == 8
    assert answer.text == TOKENIZER.decode(answer.token_ids)
    usage = answer.finished.usage
    assert (usage.num_prompt_tokens, usage.num_output_tokens) == (len(prompt), 8)
    assert usage.total_time.ToNanoseconds() >= usage.time_to_first_token.ToNanoseconds() > 0
    assert usage.mean_batch_size == 1


async def test_a_conversation_is_rendered(bench):
    turns = [("system", "be kind"), ("user", "please")]
    text = (
        "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nplease<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    answer = await bench.generate(turns)
    assert answer.started.num_prompt_tokens == len(TOKENIZER.encode(text).ids)


async def test_eight_at_once_equal_their_solo_runs_I4(bench):
    prompts = [f"please sing {number} the thing" for number in range(8)]
    solo = [(await bench.generate(prompt)).token_ids for prompt in prompts]
    mixed = await asyncio.gather(*(bench.generate(prompt) for prompt in prompts))
    assert [answer.token_ids for answer in mixed] == solo


async def test_logprobs_come_one_a_token(bench):
    answer = await bench.generate(logprobs=3)
    entries = [entry for delta in answer.deltas for entry in delta.logprobs]
    assert [entry.token_id for entry in entries] == answer.token_ids
    assert all(entry.top[0].token_id == entry.token_id for entry in entries)  # greedy
    assert all(len(entry.top) == 3 and entry.logprob < 0 for entry in entries)
    assert not [d for d in (await bench.generate()).deltas if d.logprobs]


async def test_a_seed_repeats_and_another_does_not(bench):
    asked = {"temperature": 1.0, "max_tokens": 12}
    first, again, other = [
        (await bench.generate(**asked, seed=seed)).token_ids for seed in (1, 1, 2)
    ]
    assert first == again != other


async def test_a_stop_string_ends_it(bench):
    text = (await bench.generate(max_tokens=20)).text
    stop = text[3:5]
    answer = await bench.generate(max_tokens=20, stop_strings=[stop])
    assert answer.text == text[: text.index(stop)]
    assert answer.finished.finish_reason == FINISH_REASON_STOP
    assert answer.finished.stop_string == stop


async def test_huge_max_tokens_is_clipped_to_the_context_P04(bench):
    answer = await bench.generate("the", max_tokens=10**9)
    assert answer.finished.finish_reason == FINISH_REASON_LENGTH
    assert answer.started.num_prompt_tokens + len(answer.token_ids) == 128


async def test_the_ticket_limits_the_output(bench):
    ticket = make_ticket(bench.sealer, max_output_tokens=3)
    assert len((await bench.generate(ticket=ticket)).token_ids) == 3


INVALID = [
    ("options.sampling.temperature", {"temperature": -1.0}),
    ("options.sampling.temperature", {"temperature": math.nan}),
    ("options.sampling.top_p", {"top_p": 0.0}),
    ("options.sampling.top_k", {"top_k": 0}),
    ("options.sampling.min_p", {"min_p": 2.0}),
    ("options.sampling.repetition_penalty", {"repetition_penalty": math.inf}),
    ("options.sampling.presence_penalty", {"presence_penalty": 3.0}),
    ("options.sampling.frequency_penalty", {"frequency_penalty": -3.0}),
    ("options.stop.max_tokens", {"max_tokens": 0}),
    ("options.stop.stop_strings[0]", {"stop_strings": [""]}),
    ("options.stop.stop_strings[0]", {"stop_strings": ["x" * 10_000]}),
    ("options.stop.stop_token_ids[0]", {"stop_token_ids": [151645]}),
    ("options.logprobs", {"logprobs": 21}),
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": "  "}),
    ("prompt", {"prompt": "a\0"}),
    ("messages", {"prompt": []}),
    ("messages[0].role", {"prompt": [("tool", "x")]}),
    ("messages[0].content", {"prompt": [("user", "")]}),
]


async def test_each_invalid_field_is_named_and_the_engine_never_hears_of_it_P03_P05_P07(bench):
    before = await bench.status()
    stream = asyncio.create_task(bench.generate("the other stream", max_tokens=60))
    for field, changes in INVALID:
        error = await error_of(bench.call(**changes))
        assert error.code == "INVALID_ARGUMENT", field
        assert error.field == field
    assert len((await stream).token_ids) == 60
    assert (await bench.rest()).num_output_tokens == before.num_output_tokens + 60


@pytest.mark.parametrize("num_words", [128, 129, 1280])
async def test_a_prompt_longer_than_the_context_P09(bench, num_words):
    prompt = "z" * num_words
    digest = bench.shelf.add(good_adapter())
    error = await error_of(bench.call(prompt, {digest: 1.0}))
    assert type(error).__name__ == "PromptTooLongError"
    assert str(num_words) in error.message
    assert "128" in error.message
    assert bench.shelf.fetched == []  # before any adapter is loaded
    assert (await bench.rest()).num_output_tokens == 1  # the start-up token


async def test_forged_foreign_expired_and_missing_tickets(bench):
    forged = make_ticket(Sealer(b"another key of at least 32 bytes"))
    tampered = make_ticket(bench.sealer)
    tampered.payload = tampered.payload.replace(b"tenant", b"tenand")
    cases = {
        "UNAUTHENTICATED": [forged, tampered, make_request(forged, "x").ticket],
        "PERMISSION_DENIED": [
            make_ticket(bench.sealer, worker="w1"),
            make_ticket(bench.sealer, task=Task.TASK_ENCODE),
        ],
        "FAILED_PRECONDITION": [make_ticket(bench.sealer, expires_at_boot_s=boot_clock_s() - 1)],
    }
    for code, tickets in cases.items():
        for ticket in tickets:
            assert (await error_of(bench.call(ticket=ticket))).code == code
    no_ticket = pb.InferenceServiceGenerateRequest()
    assert (await error_of(bench.stub.Generate(no_ticket))).code == "UNAUTHENTICATED"


async def test_a_deadline_that_passes_stops_the_work_F25(bench):
    gate = threading.Event()

    def hold(chunks):
        assert gate.wait(30)

    bench.backend.before_forward = hold
    error = await error_of(bench.call(timeout=0.3, max_tokens=100))
    assert error.code == "DEADLINE_EXCEEDED"
    gate.set()
    status = await bench.rest()
    assert status.num_output_tokens <= 3
    assert len((await bench.generate()).token_ids) == 8


async def test_the_model_and_the_counts_are_told(bench):
    model = await bench.stub.GetModel(pb.GetModelRequest())
    assert (model.name, model.max_context_tokens) == ("stand-in", 128)
    assert model.vocab_size == TOKENIZER.get_vocab_size()
    assert (model.backend, model.max_lora_rank) == ("stand-in", 16)
    status = await bench.status()
    assert status.num_adapter_slots == 2
    assert (status.weights_bytes, status.kv_cache_bytes, status.adapter_slots_bytes) == (1, 2, 200)
