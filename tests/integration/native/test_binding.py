"""The Python face of the native core: what it promises beside the numbers."""

import json
import os

import pytest

from tests.support import native_core

PRELUDE = """
import json, pathlib, resource, sys
import numpy as np
import edgelora_native as n
sizes = dict(num_kv_blocks=3, max_loras=1, max_lora_rank=4, max_step_tokens=40, num_threads=1)
path = pathlib.Path(sys.argv[1])
def factors(a, b, module="q_proj", layer=0, scaling=1.0):
    return n.AdapterFactors(layer, module, np.full(a, 0.1, np.float32),
                            np.full(b, 0.1, np.float32), scaling)
def chunk(tokens, start=0, table=(0,), adapters=()):
    return n.Chunk(token_ids=np.array(tokens, dtype=np.int32), start_position=start,
                   block_table=table, adapters=adapters, needs_logits=True)
def said(call):
    try:
        call()
    except n.NativeError as error:
        return str(error)
"""


def run(package, model, code):
    return json.loads(native_core.run_python(package, "-c", PRELUDE + code, model).stdout)


@pytest.fixture
def model(models):
    return models / "llama.edgelora"


def test_rows_are_right_or_refused_while_another_thread_changes_the_slots(package, model):
    native_core.run_python(
        package, native_core.ROOT / "tests/support/native_churn.py", model, "300"
    )


CASES = {
    "at least one sequence": "[]",
    "1 to max_step_tokens": "[chunk([])]",
    "longer than the model's context": "[chunk([1], start=128, table=[0])]",
    "block table is too short": "[chunk([1], table=[])]",
    "block that does not exist": "[chunk([1], table=[3])]",
    "outside the vocabulary": "[chunk([256])]",
    "write the same block": "[chunk([1]), chunk([1])]",
    "no such adapter slot": "[chunk([1], adapters=[(1, 1.0)])]",
    "holds nothing": "[chunk([1], adapters=[(0, 1.0)])]",
}


@pytest.mark.parametrize("reason", CASES)
def test_a_batch_that_does_not_fit_is_refused_and_the_engine_goes_on(package, model, reason):
    code = f"""
engine = n.Engine(path, n.Limits(**sizes))
before = engine.forward([chunk([1, 2])])
text = said(lambda: engine.forward({CASES[reason]}))
print(json.dumps([text, bool((engine.forward([chunk([1, 2])]) == before).all())]))
"""
    text, goes_on = run(package, model, code)
    assert reason in text
    assert goes_on


def test_the_last_position_of_the_context_and_the_last_block_are_served(package, model):
    code = """
engine = n.Engine(path, n.Limits(**sizes | {"num_kv_blocks": 8}))
for start in (0, 32, 64, 96):
    logits = engine.forward([chunk([1] * 32, start, range(7, -1, -1))])
print(json.dumps([bool(np.isfinite(logits).all()),
                  said(lambda: engine.forward([chunk([1], 128, range(8))]))]))
"""
    is_finite, text = run(package, model, code)
    assert is_finite
    assert "longer than the model's context" in text


def test_the_slots_of_two_adapters_change_no_bit(package, model):
    code = """
def random_factors(seed):
    draw = np.random.default_rng(seed)
    return [n.AdapterFactors(layer, "q_proj", draw.normal(0, 0.3, (4, 64)).astype(np.float32),
                             draw.normal(0, 0.3, (128, 4)).astype(np.float32), 1.0)
            for layer in (0, 1)]
def logits(first, second):
    engine = n.Engine(path, n.Limits(**sizes | {"max_loras": 5}))
    engine.load_adapter(first, random_factors(1))
    engine.load_adapter(second, random_factors(2))
    pairs = [(first, 1.0), (second, 0.7)]
    return engine.forward([chunk(range(20, 40), 0, (0, 1), pairs)])
placed = [logits(0, 1), logits(1, 0), logits(4, 2)]
print(json.dumps([bool((placed[0] == other).all()) for other in placed[1:]]))
"""
    assert run(package, model, code) == [True, True]


def test_a_later_token_that_overflows_spoils_no_earlier_one(package, model):
    code = """
prefix = list(range(30, 46))
draw = np.random.default_rng(3)
a, b = draw.normal(0, 1, (1, 64)).astype(np.float32), np.full((64, 1), 100.0, np.float32)
found = None
for scaling in np.geomspace(10, 1e4, 40):
    engine = n.Engine(path, n.Limits(**sizes))
    engine.load_adapter(0, [n.AdapterFactors(0, "v_proj", a, b, float(scaling))])
    alone = engine.forward([chunk([*prefix, 7], 0, (0, 1), [(0, 1.0)])])
    if not np.isfinite(alone).all():
        break
    for token in range(256):
        late = engine.forward([chunk([*prefix, token, token], 0, (0, 1), [(0, 1.0)])])
        if not np.isfinite(late).all():
            # The prefix's block again, with what was written in the overflowing company.
            hit = engine.forward([chunk([7], 16, (0, 2), [(0, 1.0)])])
            found = bool((hit == alone).all())
            break
    if found is not None:
        break
print(json.dumps(found))
"""
    assert run(package, model, code) is True


def test_an_8_bit_cache_is_half_as_large_and_close(package, model):
    code = """
def logits(**more):
    engine = n.Engine(path, n.Limits(**sizes | {"num_kv_blocks": 8} | more))
    rows = [engine.forward([chunk([3 * start + 1] * 32, start, range(8))]) for start in (0, 32, 64)]
    rows.append(engine.forward([chunk([9], 96, range(8))]))
    return np.concatenate(rows), engine.description.kv_cache_bytes
half, half_bytes = logits()
eight, eight_bytes = logits(kv_cache_int8=True)
error = np.linalg.norm(eight - half, axis=1) / np.linalg.norm(half, axis=1)
print(json.dumps([error.tolist(), eight_bytes / half_bytes]))
"""
    errors, share = run(package, model, code)
    assert all(0 < error < 0.04 for error in errors), errors
    assert share == (32 + 4) / (2 * 32)


def test_factors_of_other_sizes_are_refused(package, model):
    code = """
engine = n.Engine(path, n.Limits(**sizes))
wrong = [
    factors((4, 32), (128, 4)), factors((4, 64), (64, 4)), factors((4, 64), (128, 3)),
    factors((4,), (128, 4)), factors((5, 64), (128, 5)), factors((0, 64), (128, 0)),
    factors((4, 64), (128, 4), layer=2), factors((4, 64), (128, 4), scaling=float("nan")),
    factors((4, 64), (128, 4), module="k_proj"),
]
texts = [said(lambda each=each: engine.load_adapter(0, [each])) for each in wrong]
texts.append(said(lambda: engine.load_adapter(0, [])))
engine.load_adapter(0, [factors((4, 64), (128, 4))])
print(json.dumps(texts))
"""
    texts = run(package, model, code)
    assert len(texts) == 10
    assert all(texts), texts


def test_threads_that_can_not_be_had_are_a_refusal(package, model):
    code = """
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
text = said(lambda: n.Engine(path, n.Limits(**sizes | {"num_threads": 256})))
print(json.dumps([text, said(lambda: n.Engine(path, n.Limits(**sizes)))]))
"""
    text, afterwards = run(package, model, code)
    assert text
    assert afterwards is None


def test_memory_that_can_not_be_had_is_a_refusal(package, model):
    code = """
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
print(json.dumps([said(lambda: n.Engine(path, n.Limits(**sizes | more))) for more in (
    {"num_kv_blocks": 1 << 24}, {"max_loras": 4096, "max_lora_rank": 1024},
)]))
"""
    texts = run(package, model, code)
    assert all(texts), texts


def test_a_closed_engine_refuses(package, model):
    code = """
engine = n.Engine(path, n.Limits(**sizes))
engine.close()
engine.close()
print(json.dumps([said(lambda: engine.forward([chunk([1])])),
                  said(lambda: engine.unload_adapter(0)),
                  said(lambda: engine.load_adapter(0, [factors((4, 64), (128, 4))]))]))
"""
    assert run(package, model, code) == ["the engine is closed"] * 3


def test_a_file_that_is_changed_in_place_can_not_mislead_an_open_engine(package, model, tmp_path):
    copy = tmp_path / "copy.edgelora"
    copy.write_bytes(model.read_bytes())
    code = """
engine = n.Engine(path, n.Limits(**sizes))
before = engine.forward([chunk([1, 2])])
with path.open("r+b") as file:
    file.write(b"\\xff" * 1000)
print(json.dumps([bool((engine.forward([chunk([1, 2])]) == before).all()),
                  said(lambda: n.Engine(path, n.Limits(**sizes)))]))
"""
    is_same, text = run(package, copy, code)
    assert is_same
    assert "no packed model file" in text


def test_a_pipe_is_refused_and_not_waited_for(package, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "no regular file" in run(
        package, pipe, "print(json.dumps(said(lambda: n.Engine(path, n.Limits(**sizes)))))"
    )


def test_threads_that_are_not_wanted_never_run_and_come_back(package, model):
    answer = run(
        package,
        model,
        """
def state_of(task):
    return (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
def times_run():
    # One that spins from its waking on switches no more, but does not sleep either.
    threads = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        state = state_of(task)
        lines = (task / "status").read_text().splitlines()
        counts = [line.split()[1] for line in lines if "ctxt_switches" in line]
        threads[task.name] = sum(map(int, counts)), state == "S"
    return threads
before = set(times_run())
engine = n.Engine(path, n.Limits(**{**sizes, "num_threads": 4}))
team = set(times_run()) - before
logits = [engine.forward([chunk([1, 2, 3])])]
engine.set_threads(2)
def asleep():
    return {name for name in team if state_of(pathlib.Path("/proc/self/task", name)) == "S"}
while asleep() != team:  # those that move over have done so, the others wait for a step
    logits.append(engine.forward([chunk([1, 2, 3])]))
first = times_run()
for _ in range(300):
    logits.append(engine.forward([chunk([1, 2, 3])]))
second = times_run()
engine.set_threads(4)
logits.append(engine.forward([chunk([1, 2, 3])]))
while any(times_run()[name] == second[name] for name in team):
    logits.append(engine.forward([chunk([1, 2, 3])]))
print(json.dumps({
    "team": len(team),
    "still": sum(first[name] == second[name] for name in team),
    "same": all(np.array_equal(each, logits[0]) for each in logits),
    "refused": [said(lambda: engine.set_threads(count)) for count in (0, 5)],
}))
""",
    )
    refusal = "the number of threads must be 1 to that of the limits"
    assert answer == {"team": 3, "still": 2, "same": True, "refused": [refusal] * 2}
