"""The other commands against a running stack, as an operator and tenants use them."""

import json
import os
import re
import signal
import stat
import subprocess
import time

import pytest

from bench.adapters import QUERY_VALUE, write_random_adapter
from services.chassis.base_model import BaseModel
from tests.support.terminal import Terminal
from tests.support.up_process import EDGELORA, prepared_model, up_process

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with up_process(tmp_path_factory.mktemp("stack"), "--no-demo", "--port", "0") as stack:
        medium = stack.home / "medium"
        medium.mkdir(parents=True)
        (stack.home / "remotes.toml").write_text(
            f'[usb]\nkind = "directory"\npath = "{medium}"\ntenants = ["shared"]\n'
        )
        stack.start().wait_until_serving()
        stack.run("tenants", "add", "shared")
        yield stack
        assert stack.stop() == 0
        assert stack.leftovers() == []


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    directory = tmp_path_factory.mktemp("adapters") / "letters"
    model = BaseModel.load(prepared_model())
    return write_random_adapter(directory, model, rank=4, modules=QUERY_VALUE, seed=7)


def test_from_a_new_tenant_to_an_answer_and_back(up, adapter):
    made = up.run_json("tenants", "add", "garage", "--max-concurrent", "2")
    assert (made["tenant_id"], made["max_concurrent_requests"]) == ("garage", 2)
    assert stat.S_IMODE(os.stat(made["api_key_file"]).st_mode) == 0o600
    who = ("--tenant", "garage")

    added = up.run_json("adapters", "add", str(adapter), "--alias", "letters", *who)
    digest = added["adapter"]["digest"]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    assert (added["alias"]["name"], added["is_new"]) == ("letters", True)

    listed = up.run_json("adapters", "list", *who)
    assert [found["digest"] for found in listed["adapters"]] == [digest]
    shown = up.run_json("adapters", "show", "letters", *who)
    assert (shown["rank"], shown["target_modules"]) == (4, ["q_proj", "v_proj"])
    assert digest in up.run("adapters", "show", digest, *who)

    pointed = up.run_json("adapters", "alias", "mail", "letters", *who)
    assert pointed == {"name": "mail", "digest": digest, "generation": 1}

    ask = ("chat", "-m", "Say hello.", "--max-tokens", "8", *who)
    answer = up.run_json(*ask, "--adapter", "mail=0.5")
    (used,) = answer["adapters"]
    assert (used["digest"], used["alias"], used["strength"]) == (digest, "mail", 0.5)
    assert (used["generation"], used["source"]) == (1, "upload")
    assert used["certificate_digest"] == shown["certificate_digest"]
    assert answer["usage"]["num_output_tokens"] == 8
    assert answer["finish_reason"] == "length"
    assert up.run(*ask, "--adapter", "mail=0.5") == answer["text"] + "\n"
    base = up.run_json(*ask)
    assert base["adapters"] == []
    assert up.run_json(*ask, "--adapter", "mail=0")["text"] == base["text"]

    removed = up.run_json("adapters", "remove", "mail", *who)
    assert removed == {"removed_aliases": ["mail"], "removed_digest": None}
    removed = up.run_json("adapters", "remove", digest, *who)
    assert removed == {"removed_aliases": ["letters"], "removed_digest": digest}
    assert up.run("adapters", "list", *who).startswith("there are no adapters")

    up.run("tenants", "revoke", "garage")
    assert "edgelora tenants keys list NAME" in up.run(*ask, status=1)
    revoked = {tenant["tenant_id"]: tenant for tenant in up.run_json("tenants", "list")}["garage"]
    assert revoked["revoked_at"] is not None


def test_tables_and_lines_are_for_people(up, adapter):
    who = ("--tenant", "shared")
    said = up.run("adapters", "add", str(adapter), "--alias", "letters", *who)
    assert re.fullmatch(
        r"(registered|was registered before:) sha256:\w{64} as letters \(generation \d+\)\n", said
    )
    heading, row = up.run("adapters", "list", *who).splitlines()
    assert heading.split() == [
        "aliases",
        "digest",
        "state",
        "task",
        "rank",
        "MB",
        "on",
        "flash",
        "description",
    ]
    assert row.split()[0] == "letters"
    heading, *rows = up.run("tenants", "list").splitlines()
    assert heading.split()[0] == "tenant"
    assert "shared" in [row.split()[0] for row in rows]


def test_a_packed_adapter_is_installed_pinned_and_its_use_is_told(up, tmp_path):
    who = ("--tenant", "shared")
    model = BaseModel.load(prepared_model())
    packed = write_random_adapter(tmp_path / "post", model, rank=4, modules=QUERY_VALUE, seed=8)
    up.run("adapters", "pack", str(packed), str(up.home / "medium/post"), "--tag", "v1")
    installed = up.run_json("adapters", "install", "usb/post:v1", "--alias", "post", *who)
    assert installed["adapter"]["source"].startswith("usb/post@sha256:")
    up.run("adapters", "pin", "post", *who)
    ask = ("chat", "-m", "Say hello.", "--max-tokens", "4", "--adapter", "post", "--user", "ann")
    for _ in range(2):
        (used,) = up.run_json(*ask, *who)["adapters"]
        assert used["source"] == installed["adapter"]["source"]
    shown = up.run_json("adapters", "show", "post", *who)
    assert shown["is_pinned"]
    usage = shown["usage"]
    assert usage["num_memory_hits"] + usage["num_flash_hits"] == 2
    assert usage["remote_bytes_read"] > 0
    tiers = up.run_json("status", *who)["tiers"]
    assert tiers["num_adapters"] >= 1
    assert tiers["hit_rates"]["remote"] == 0.0
    lines = up.run("status", *who).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("tier ")] == [
        "memory",
        "flash",
        "remote",
    ]
    # To whom a remote is not open, it does not exist.
    up.run("tenants", "add", "stranger")
    refused = up.run("adapters", "install", "usb/post:v1", "--tenant", "stranger", status=1)
    unknown = up.run("adapters", "install", "none/post:v1", "--tenant", "stranger", status=1)
    assert refused.splitlines()[-1] == unknown.splitlines()[-1]


def test_the_status_names_every_service_and_ends_with_0(up):
    text = up.run("status", "--tenant", "shared")
    for service in ("scheduler", "adapter_store", "inference", "monitor"):
        assert re.search(rf"^service +{service} +ready$", text, re.M)
    assert re.search(r"^computes +(native|torch), KV cache in \w+$", text, re.M)
    document = up.run_json("status", "--tenant", "shared")
    assert document["usage"]["tenant_id"] == "shared"
    assert all(service["is_ready"] for service in document["services"])
    assert {process["service"] for process in document["device"]["processes"]} >= {"inference"}


def test_a_cut_answer_says_so_beside_it(up):
    command = [EDGELORA, "chat", "--tenant", "shared", "--max-tokens", "4", "-m", "Tell a story."]
    done = subprocess.run(command, env=up.environ, capture_output=True, text=True, check=True)
    assert done.stderr == "(cut at 4 tokens: give more with --max-tokens)\n"


def test_a_message_may_come_through_standard_input(up):
    said = up.run("chat", "--tenant", "shared", "--max-tokens", "4", text="Say hello.\n")
    assert said.strip()
    assert "standard input is empty" in up.run("chat", "--tenant", "shared", status=1, text=" \n")


def test_a_key_is_shown_once_on_request_and_works_from_file_and_environment(up, tmp_path):
    key = up.run("tenants", "add", "visitor", "--show-key").strip()
    assert not (up.home / "keys/visitor.key").exists()
    path = tmp_path / "key"
    path.write_text(key + "\n")
    assert up.run_json("status", "--api-key-file", str(path))["usage"]["tenant_id"] == "visitor"
    done = subprocess.run(
        [EDGELORA, "status", "--json"],
        env={**up.environ, "EDGELORA_API_KEY": key},
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["usage"]["tenant_id"] == "visitor"
    for log in (up.home / "logs").glob("*.log"):
        assert key not in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("chat", "-m", "x", "--adapter", "unknown"), "you have no such adapter"),
        (("adapters", "show", "unknown"), "no such adapter"),
        (("adapters", "alias", "a", "unknown"), "no such adapter"),
        (("adapters", "remove", "unknown"), "no such adapter"),
        (("adapters", "add", "/tmp"), "adapter_config.json is missing"),
    ],
)
def test_what_the_node_refuses_is_one_clear_line(up, arguments, words):
    said = up.run(*arguments, "--tenant", "shared", status=1)
    assert words in said
    assert said.splitlines()[-1].startswith("edgelora: ")


def test_a_name_is_not_given_twice(up):
    assert "edgelora: " in up.run("tenants", "add", "shared", status=1)
    assert (up.home / "keys/shared.key").exists()


def test_a_killed_worker_comes_back_and_answers(up):
    before = up.pids()["inference"]
    os.kill(before, signal.SIGKILL)
    up.wait_until(lambda up: "inference was killed by signal 9" in up.output)
    up.wait_until(lambda up: up.pids().get("inference", before) != before)
    end = time.monotonic() + 60
    while True:  # until it is ready again, requests are refused with a reason
        done = subprocess.run(
            [EDGELORA, "chat", "--tenant", "shared", "-m", "Hello", "--max-tokens", "4"],
            env=up.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr
        if done.returncode == 0:
            break
        assert time.monotonic() < end, done.stderr


@pytest.fixture
def chat(up, request):
    command = [EDGELORA, "chat", "--tenant", "shared", "--max-tokens", "1500"]
    with Terminal(up.environ, *command, interrupt=getattr(request, "param", "SIG_DFL")) as it:
        yield it


@pytest.mark.parametrize("chat", ["SIG_DFL", "SIG_IGN"], indirect=True)
def test_ctrl_c_stops_the_answer_and_the_next_one_leaves(chat):
    chat.expect("you> ")
    chat.send("Tell a very long story about the sea.\n")
    chat.expect(r"the sea\.\s+\w+")
    chat.send("\x03")
    chat.expect(r"\(stopped\)\s+you> ")
    chat.interrupt_at_prompt()
    assert chat.wait() == 0


def test_what_is_wrong_in_a_chat_does_not_end_it(chat):
    chat.expect("you> ")
    chat.send("/adapter nobody=3\n")
    chat.expect(r"strength from 0 to 2.*\s+you> ")
    chat.send("/adapter nobody\n")
    chat.expect(r"edgelora: this tenant has no such adapter.*\s+you> ")
    chat.send("/nonsense\n")
    chat.expect(r"there is no such command\s+/adapter[\s\S]*/quit.*\s+you> ")
    chat.send("/help\n")
    chat.expect(r"/quit.*\s+you> ")
    chat.send("/quit\n")
    assert chat.wait() == 0
