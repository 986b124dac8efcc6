"""The tasks of `bench classify` are the same as adapters and as whole models, in any engine."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from bench.classify_engines import ENGINES, TRANSFORMERS, WHOLE, TaskFiles, loaded
from bench.classify_models import prepare_merged, read_adapter, write_merged, write_tasks
from bench.classify_quality import trained_rows
from bench.classify_speed import measure_requests
from edgelora.toolchain.classification.clinc import place_of
from edgelora.toolchain.prepare import prepare
from services.chassis.base_model import BaseModel
from services.inference.backends.base import SlotWeight
from services.inference.encoder.backend import EncoderLimits, EncoderText
from services.inference.encoder.torch_backend import TorchEncoderBackend
from tests.support.adapter_files import safetensors_bytes
from tests.support.tiny_encoder import (
    encoder_config,
    encoder_tensors,
    head_bytes,
    save_tiny_source,
)

pytestmark = pytest.mark.integration

MODULES = ("query", "value", "output.dense", "attention.output.dense")
LABELS = ("alarm", "bill", "oos")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    save_tiny_source(home / "source")
    prepare(home / "source", home, "tiny", weights="both")
    base = home / "models" / "tiny"
    trained = home / "trained"
    trained.mkdir()
    tensors = {
        # As PEFT writes them for a classifier, whose encoder is its `bert`.
        name.replace(".model.encoder.", ".model.bert.encoder."): values
        for name, values in encoder_tensors(MODULES, num_labels=len(LABELS), scale=0.2).items()
    }
    (trained / "adapter_config.json").write_bytes(encoder_config(MODULES))
    (trained / "adapter_model.safetensors").write_bytes(safetensors_bytes(tensors))
    (trained / "head.json").write_bytes(head_bytes(LABELS))
    adapters = write_tasks(trained, home / "adapters", 3, seed=1)
    merged = [home / "merged" / str(number) for number in range(3)]
    for adapter, directory in zip(adapters, merged, strict=True):
        write_merged(base, adapter, directory)
    prepared = [prepare_merged(one, home, f"task-{one.name}") for one in merged]
    return TaskFiles(base=base, adapters=adapters, merged=merged, prepared=prepared)


def test_each_task_is_another_one_and_the_first_is_as_it_was_trained(files):
    base = BaseModel.load(files.base)
    factors = [read_adapter(one, base).weights.pairs[0, "query"].lora_a for one in files.adapters]
    assert np.abs(factors[0] - factors[1]).max() > 0.01
    assert np.abs(factors[1] - factors[2]).max() > 0.01
    source = (files.adapters[0].parents[1] / "trained" / "adapter_model.safetensors").read_bytes()
    original = read_adapter(files.adapters[0], base).weights.pairs[0, "query"].lora_a
    assert original.tobytes() in source


def test_engines_agree_on_each_task(files, tmp_path):
    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 60, 3 + 5 * row).astype(np.int32) for row in range(6)]
    tasks = [row % 3 for row in range(6)]
    backend = TorchEncoderBackend(num_threads=1)
    base = backend.load_model(files.base, EncoderLimits(max_loras=3, max_lora_rank=8))
    for slot, adapter in enumerate(files.adapters):
        backend.load_adapter(slot, read_adapter(adapter, base).weights)
    exact = backend.encode(
        [
            EncoderText(token_ids=text, adapters=(SlotWeight(task, 1.0),), pooling="mean")
            for text, task in zip(texts, tasks, strict=True)
        ]
    )
    other_task = np.abs(exact - np.roll(exact, 1, axis=0)).max()
    one = TaskFiles(
        base=files.base,
        adapters=files.adapters[:1],
        merged=files.merged[:1],
        prepared=files.prepared[:1],
    )
    for engine in (ENGINES[0], WHOLE, ENGINES[2], TRANSFORMERS):
        with loaded(engine, files, tmp_path, num_threads=1) as process:
            seconds, vectors = process.encode(texts, tasks)
            assert seconds > 0
        assert np.abs(vectors - exact).max() < 0.1 * other_task
        with loaded(engine, one, tmp_path, num_threads=1) as process:
            _, alone = process.encode(texts[::3], tasks[::3])
        assert np.abs(alone - exact[::3]).max() < 0.1 * other_task


def test_requests_are_counted_and_timed(files, tmp_path):
    texts = [np.arange(5, 15, dtype=np.int32)] * 8
    figures = measure_requests(files, texts, tmp_path)
    assert figures["requests"] == 5
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]


def test_rows_are_medians_over_the_seeds_that_are_there(tmp_path):
    for seed, right in enumerate((0.9, 0.7, 0.8)):
        place = place_of(tmp_path, "LoRA r=8", seed)
        place.mkdir(parents=True)
        measure = {"in_scope": right, "out_of_scope_recall": right / 2}
        names = ("validation", "test", "test_without_threshold")
        measures = dict.fromkeys(names, measure)
        report = {"measures": measures, "encoder_parameters": 7, "wall_seconds": 60 + seed}
        (place / "report.json").write_text(json.dumps(report))
    (row,) = trained_rows(tmp_path)
    assert (row["seeds"], row["in_scope"], row["oos_recall"]) == (3, 0.8, 0.4)
    assert (row["from_to"], row["train_s"]) == ("0.7000 to 0.9000", 61)
    shutil.rmtree(place_of(tmp_path, "LoRA r=8", 1))
    (row,) = trained_rows(tmp_path)
    assert row["seeds"] == 1
