"""`edgelora up`: the main job, and how it ends."""

import json
import random
import re
import shlex
import shutil
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from edgelora.cli.demo_cast import CAST
from tests.support.redis_server import RedisServer
from tests.support.terminal import Terminal
from tests.support.up_process import EDGELORA, is_listening, up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def test_four_tenants_stream_with_four_adapters_and_the_table_follows(tmp_path):
    with up_process(tmp_path, "--once", "--port", "0") as up:
        status = up.start().finish()
        assert (status, up.errors) == (0, "")
        text, _, table = up.output.partition("\ntenant ")
        for role in CAST:
            assert re.search(rf"^{role.tenant}/{role.adapter} \| \S", text, re.M)
        rows = [line.split() for line in table.splitlines()[1 : 1 + len(CAST)]]
        assert [row[:2] for row in rows] == [[role.tenant, role.adapter] for role in CAST]
        for _, _, ttft_ms, tokens_per_s, tokens, share, end in rows:
            assert float(ttft_ms) > 0
            assert float(tokens_per_s) > 0
            assert int(tokens) > 1
            assert 0 < int(share.rstrip("%")) <= 100
            assert end in ("stop", "length")
        assert "\x1b" not in up.output
        assert up.leftovers() == []


def test_the_json_of_a_second_start_names_four_different_adapters(tmp_path):
    with up_process(tmp_path, "--once", "--json", "--port", "0") as up:
        for _ in range(2):
            assert up.start().finish() == 0, up.errors
            document = json.loads(up.output)
            streams = document["streams"]
            assert document["openai_base_url"] == f"http://{document['http_address']}/v1"
            assert document["ollama_host"] == f"http://{document['http_address']}"
            assert document["dashboard_url"] == f"http://{document['dashboard_address']}"
            assert [stream["tenant"] for stream in streams] == [role.tenant for role in CAST]
            assert len({stream["digest"] for stream in streams}) == len(CAST)
            assert all(stream["error"] is None for stream in streams)
            assert any(stream["mean_batch_size"] > 1 for stream in streams)
            command = next(stream for stream in streams if stream["tenant"] == "home")
            assert set(json.loads(command["text"])) == {"intent", "slots"}
        assert up.leftovers() == []


def test_on_a_terminal_there_are_panels_and_a_line_to_paste(tmp_path):
    with (
        up_process(tmp_path, "--port", "0") as up,
        Terminal(up.environ, EDGELORA, "up", *up.arguments, term="xterm-256color") as terminal,
    ):
        up.process = terminal.process
        screen = terminal.expect(r"Ctrl-C stops everything\.")
        for role in CAST:
            assert f"{role.tenant} · {role.adapter}" in screen
        (line,) = re.findall(r"^  (\S*edgelora chat .*?)\s*$", screen, re.M)
        words = [*shlex.split(line)[1:], "-m", "Invite Ann to lunch.", "--max-tokens", "4"]
        assert up.run(*words).strip()
        (line,) = re.findall(r"^  (curl .*?)\s*$", screen, re.M)
        if shutil.which("curl"):
            assert json.loads(up.shell(line))["choices"][0]["message"]["content"]
        terminal.send("\x03")
        assert terminal.wait() == 0
        assert up.leftovers() == []


MOMENTS = {
    "the home is there": lambda up: up.home.joinpath("logs").exists(),
    "the run directory is there": lambda up: any(up.runtime.iterdir()),
    "the first process runs": lambda up: up.pids(),
    "all processes run": lambda up: len(up.pids()) == 6,
    "the first is ready": lambda up: " ready\n" in up.output,
    "all are ready": lambda up: "processes ready" in up.output,
    "text streams": lambda up: "office/email | " in up.output,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_during_the_start_leaves_nothing(tmp_path, moment):
    with up_process(tmp_path, "--port", "0") as up:
        up.start().wait_until(MOMENTS[moment])
        assert up.stop() == 130
        assert up.errors.strip() == "edgelora: interrupted"
        assert up.leftovers() == []


@pytest.mark.parametrize("seed", range(4))
def test_any_signal_at_any_time_leaves_nothing(tmp_path, seed):
    draw = random.Random(seed)
    number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until(MOMENTS["the home is there"])
        time.sleep(draw.uniform(0.0, 4.0))  # the random moment itself, nothing waits for it
        assert up.stop(number) in (0, 130)
        assert up.leftovers() == []


def test_serving_goes_on_until_ctrl_c_and_then_nothing_is_left(tmp_path):
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until_serving()
        address, http = up.state["gateway_address"], up.state["http_address"]
        for place in (address, f"http://{http}/v1", f"http://{up.state['dashboard_address']}"):
            assert place in up.output
        assert is_listening(address)
        assert is_listening(http)
        assert up.state["is_ready"]
        assert up.stop() == 0
        assert up.leftovers() == []
        assert not is_listening(address)
        assert not is_listening(http)


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until_serving()
        # A service that hangs would be waited for; the second signal ends it.
        psutil.Process(up.pids()["scheduler"]).suspend()
        up.process.send_signal(signal.SIGINT)
        up.wait_until(lambda up: "gateway" not in up.pids())
        assert up.stop() == 0
        assert up.leftovers() == []


def test_a_killed_launcher_takes_all_processes_with_it_and_the_next_start_works(tmp_path):
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until_serving()
        processes = up.processes()
        assert len(processes) >= 6
        up.kill()
        psutil.wait_procs(processes, timeout=20)
        assert up.processes() == []
        up.arguments = (*up.arguments, "--once")
        assert up.start().finish() == 0, up.errors
        assert up.leftovers() == []


def test_an_existing_redis_is_used_and_left_running(tmp_path):
    with tempfile.TemporaryDirectory(prefix="el-redis-") as directory:
        redis = RedisServer(Path(directory))
        redis.start()
        arguments = ("--redis-url", redis.url, "--redis-password-file", str(redis.password_file))
        try:
            with up_process(tmp_path, "--no-demo", "--port", "0", *arguments) as up:
                up.start().wait_until_serving()
                assert "redis" not in up.pids()
                log = up.home / "logs/adapter_store.log"
                up.wait_until(lambda _: "hot_index_connected" in log.read_text())
                assert up.stop() == 0
                assert up.leftovers() == []
            with redis.admin() as client:
                assert client.ping()
        finally:
            redis.stop()


def test_two_stacks_in_one_home_are_refused_and_the_first_goes_on(tmp_path):
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until_serving()
        before = up.pids()
        said = up.run("up", "--no-demo", "--port", "0", status=1)
        assert said == (
            f"edgelora: a stack is running already with home {up.home}: "
            "stop it, or choose another --home\n"
        )
        assert up.pids() == before
        assert is_listening(up.state["gateway_address"])
        assert up.stop() == 0


def test_a_taken_port_is_refused_before_anything_starts(tmp_path):
    with up_process(tmp_path, "--no-demo", "--port", "0") as up:
        up.start().wait_until_serving()
        port = up.state["gateway_address"].rpartition(":")[2]
        said = up.run("up", "--port", port, "--home", str(tmp_path / "home"), status=1)
        assert "running already" in said
        other = tmp_path / "other"
        other.mkdir()
        (other / "models").symlink_to(up.home / "models")
        said = up.run("up", "--port", port, "--home", str(other), status=1)
        assert f"port {port} is in use" in said
        assert not list(other.glob("stack.json"))
        assert up.stop() == 0


def test_a_wrong_setting_is_one_line_with_the_services_own_words(tmp_path):
    settings = {"EDGELORA_SCHEDULER_LEASE": "soon"}
    with up_process(tmp_path, "--no-demo", "--port", "0", settings=settings) as up:
        assert up.start().finish() == 1
        assert "EDGELORA_SCHEDULER_LEASE must be a duration" in up.errors
        assert up.errors.count("\n") == 1
        assert up.leftovers() == []
