"""Engines in processes of their own: the line protocol, and a contest over it."""

import subprocess
import sys

import psutil
import pytest

from bench.contest import Contest
from bench.engine_cases import EIGHT_BASE, EIGHT_SMALL, ONE_ADAPTER, PREFILL_ADAPTER, PREFILL_BASE
from bench.peers.process import PeerError, PeerProcess
from bench.peers.roster import Contender, Loaded

pytestmark = pytest.mark.integration

ECHO = "tests.support.echo_peer"


@pytest.fixture
def start(tmp_path):
    started = []

    def run(*module):
        process = PeerProcess(sys.executable, module or (ECHO,), {}, tmp_path / f"{len(started)}")
        started.append(process)
        return process

    yield run
    for process in started:
        process.close()


@pytest.fixture
def contest(start):
    def make(*names):
        loaded = []
        for name in names:
            contender = Contender(
                name=name, peer=name, module=(), weights="", model="", adapter_files=""
            )
            loaded.append(Loaded(contender, start(ECHO, name), {}))
        opened = Contest(seed=1, new_tokens=4, vocab_size=1000, progress=lambda line: None)
        opened.loaded = loaded
        return opened

    return make


def test_what_a_library_prints_is_no_answer(start):
    process = start()
    assert process.ask("load", gguf="a.gguf") == {
        "version": "1",
        "arguments": {"gguf": "a.gguf"},
    }
    assert process.ask("prefill", prompt=[1], adapter=None) == {"seconds": 0.25}


def test_an_error_is_told_and_the_next_question_answered(start):
    process = start()
    with pytest.raises(PeerError, match="ValueError: no adapter can be prefilled"):
        process.ask("prefill", prompt=[1], adapter=3)
    assert process.ask("prefill", prompt=[1], adapter=None) == {"seconds": 0.25}


def test_a_process_that_ends_is_told_with_its_last_words(start):
    process = start()
    with pytest.raises(PeerError, match="the process ended: the last words"):
        process.ask("die")
    with pytest.raises(PeerError, match="the process ended"):
        process.ask("load")


def test_a_process_that_can_not_start_says_why(start):
    with pytest.raises(PeerError, match="No module named"):
        start("tests.support.no_such_peer").ask("load")


def test_closing_ends_the_children_of_a_peer_too(start):
    process = start()
    child = psutil.Process(process.ask("start_child")["pid"])
    process.close()
    child.wait(10)
    assert not psutil.pid_exists(process.pid)


def test_an_engine_that_serves_the_base_is_found_out(contest):
    opened = contest("native", "base")
    opened.try_adapters()
    assert [one.adapter_applied for one in opened.loaded] == [True, False]


def test_every_round_of_every_engine_is_measured(contest):
    opened = contest("native", "other")
    # 8 streams of 4 tokens in half a second; 512 tokens in a quarter.
    assert opened.measure(EIGHT_BASE, 3) == {"native": [64.0] * 3, "other": [64.0] * 3}
    assert opened.measure(PREFILL_BASE, 1) == {"native": [2048.0], "other": [2048.0]}
    assert opened.measure(EIGHT_SMALL, 1) == {"native": [64.0]}


def test_an_engine_that_fails_is_out_and_the_others_go_on(contest):
    opened = contest("native", "other")
    with pytest.raises(PeerError):
        opened.loaded[1].process.ask("die")
    assert opened.measure(ONE_ADAPTER, 2) == {"native": [8.0, 8.0]}
    assert "other" in opened.skipped
    assert opened.measure(PREFILL_ADAPTER, 1) == {}
    assert opened.skipped["native"] == "ValueError: no adapter can be prefilled"
    assert opened.loaded == []


def test_a_peer_that_can_not_be_made_does_not_keep_the_others(tmp_path):
    done = subprocess.run(
        ["bench/peers/build.sh", tmp_path, "no-such-peer", "openvino"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "there is no peer 'no-such-peer'" in done.stderr
    assert "openvino could not be made" in done.stderr
    assert "without no-such-peer openvino" in done.stderr
