"""Our own engines in a contest, on the real model."""

import pytest

from bench.bandwidth import read_bandwidth
from bench.contest import contest, medians
from bench.engine_cases import DISTINCT, EIGHT_SMALL, PREFILL_ADAPTER
from bench.model_files import ModelFiles
from bench.peers.roster import ENGINE, NATIVE, Contender
from tests.support.prepared_model import prepared_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def opened():
    if reason := NATIVE.missing:
        pytest.skip(reason)
    absent = Contender(
        name="absent", peer="absent", module=(), weights="", model="prepared", adapter_files="peft"
    )
    files = ModelFiles(directory=prepared_model())
    with contest(
        [NATIVE, absent, ENGINE],
        files,
        seed=1,
        num_threads=1,
        new_tokens=2,
        progress=lambda line: None,
    ) as engines:
        yield engines


def test_both_apply_adapters_and_say_the_same_tokens(opened):
    opened.try_adapters()
    assert {one.contender.name: one.adapter_applied for one in opened.loaded} == {
        "native": True,
        "engine": True,
    }
    assert opened.skipped == {"absent": "not installed: run `make bench-peers PEERS=absent`"}
    prompts = [[1000 + 10 * stream + at for at in range(20)] for stream in range(8)]
    answers = [
        one.process.ask(
            "decode", prompts=prompts, adapters=list(DISTINCT[8].adapters), new_tokens=6
        )
        for one in opened.loaded
    ]
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    assert [len(row) for row in answers[0]["token_ids"]] == [7] * 8
    assert len({tuple(row) for row in answers[0]["token_ids"]}) > 1
    for answer in answers:
        assert 0 < answer["decode_s"] < answer["total_s"]


def test_every_case_has_a_figure(opened):
    for case in (DISTINCT[8], PREFILL_ADAPTER):
        speeds = medians(opened.measure(case, 1))
        assert speeds.keys() == {"native", "engine"}
        assert min(speeds.values()) > 0
    assert medians(opened.measure(EIGHT_SMALL, 1)).keys() == {"native"}


def test_the_read_bandwidth_is_that_of_a_memory():
    assert 1e8 < read_bandwidth(2) < 1e13
