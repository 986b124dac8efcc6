"""Every error is one line on standard error that says what to do; never a traceback."""

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edgelora.cli.main import run
from edgelora.errors import UnauthenticatedError
from edgelora.local_stack.state_file import StackState

EDGELORA = Path(sys.executable).parent / "edgelora"


@pytest.fixture
def fails(capsys, monkeypatch, tmp_path):
    for name in ("EDGELORA_API_KEY", "EDGELORA_ADDRESS", "EDGELORA_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDGELORA_HOME", str(tmp_path / "home"))

    def check(*arguments, status=1):
        assert run(arguments) == status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("edgelora: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return check


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense': see `edgelora --help`"),
        (["up", "--port", "70000"], "see `edgelora up --help`"),
        (["up", "--port", "x"], "see `edgelora up --help`"),
        (["adapters", "add"], "Missing argument 'DIRECTORY': see `edgelora adapters add --help`"),
        (["adapters", "add", "/no/such/directory"], "does not exist"),
        (["adapters", "nonsense"], "see `edgelora adapters --help`"),
        (["tenants", "add"], "Missing argument 'TENANT_ID'"),
        (["tenants", "add", "x", "--max-concurrent", "0"], "see `edgelora tenants add --help`"),
        (["chat", "--temperature", "3"], "see `edgelora chat --help`"),
        (["chat", "--max-tokens", "0", "-m", "x"], "see `edgelora chat --help`"),
        (["chat", "--priority", "urgent"], "'interactive', 'background', 'batch'"),
        (["bench", "nonsense"], "see `edgelora bench --help`"),
        (["train"], "give DATA, or --demo NAME"),
        (["train", "/etc/hostname"], "give --output DIRECTORY"),
        (["train", "/etc/hostname", "--demo", "email"], "give DATA, or --demo NAME"),
        (["model", "prepare", "a", "b"], "see `edgelora model prepare --help`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_ends_with_status_2_and_points_to_the_help(fails, arguments, words):
    assert words in fails(*arguments, status=2)


@pytest.mark.parametrize("group", ["adapters", "device", "router"])
def test_a_group_without_a_command_shows_its_help_in_lines(capsys, group):
    assert run([group]) in (0, 2)  # click before 8.2 takes it for --help
    said = "".join(capsys.readouterr())
    assert said.startswith(f"Usage: edgelora {group} ")
    assert "\nCommands:\n" in said


def test_no_running_stack_is_said_with_the_remedy(fails):
    for command in (["status"], ["adapters", "list"], ["tenants", "list"], ["chat", "-m", "x"]):
        assert "start one with `edgelora up`" in fails(*command)


def test_a_missing_key_names_the_saved_ones(fails, tmp_path):
    keys = tmp_path / "home/keys"
    keys.mkdir(parents=True)
    (keys / "office.key").write_text("k\n")
    said = fails("status", "--address", "127.0.0.1:1")
    assert "--tenant NAME (saved: office)" in said
    assert "EDGELORA_API_KEY" in said
    assert "no saved key" in fails("status", "--address", "127.0.0.1:1", "--tenant", "nobody")


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a b", "x" * 65])
def test_a_tenants_name_never_becomes_a_path_elsewhere(fails, name):
    said = fails("status", "--address", "127.0.0.1:1", "--tenant", name)
    assert "the tenant's name is not valid" in said


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", b"a\nb"])
def test_a_file_that_holds_no_key_is_refused_without_showing_it(fails, tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    said = fails("status", "--address", "127.0.0.1:1", "--api-key-file", str(path))
    assert "does not hold an API key" in said


def test_a_key_file_that_is_not_there_is_one_line(fails, tmp_path):
    said = fails("status", "--address", "127.0.0.1:1", "--api-key-file", str(tmp_path / "none"))
    assert "No such file" in said


def test_a_gateway_that_does_not_answer_is_one_line(fails, monkeypatch):
    monkeypatch.setenv("EDGELORA_API_KEY", "k")
    said = fails("status", "--address", "127.0.0.1:1")
    assert said == (
        "edgelora: no node answers at 127.0.0.1:1: start one with `edgelora up`, "
        "or check the address, and with TLS the certificates (--ca-file, in Python ca_file)\n"
    )
    assert "no node answers at unix:" in fails("tenants", "list", "--admin-address", "unix:/none")


def test_the_file_of_a_launcher_that_was_killed_is_no_running_stack(fails, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGELORA_API_KEY", "k")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / "home").mkdir()
    StackState(
        launcher_pid=gone.pid,
        run_dir="/nowhere",
        gateway_address="127.0.0.1:1",
        http_address="127.0.0.1:2",
        dashboard_address="127.0.0.1:3",
        admin_address="unix:/nowhere",
        model="m",
        is_ready=True,
    ).save(tmp_path / "home/stack.json")
    for command in (["status"], ["tenants", "list"]):
        assert "no stack is running" in fails(*command)


def test_a_key_the_node_does_not_know_is_said_for_people(fails, monkeypatch):
    def refuse(*_arguments, **_options):
        raise UnauthenticatedError("send the metadata")

    monkeypatch.setattr("edgelora.cli.node_call.connection", refuse)
    assert "`edgelora tenants keys add NAME` makes another" in fails("status")


def test_a_directory_without_an_adapter_is_said_before_a_stack_is_looked_for(fails, tmp_path):
    assert "adapter_config.json is missing" in fails("adapters", "add", str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "adapter_model.safetensors is missing" in fails("adapters", "add", str(tmp_path))


def test_a_taken_port_is_said_before_a_model_is_looked_for(fails):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = fails("up", "--once", "--port", str(port), "--model", "not-prepared")
    assert f"port {port} is in use" in said


def test_a_model_that_is_not_prepared_is_named(fails):
    said = fails("up", "--model", "other", "--once")
    assert "edgelora model prepare SOURCE --name other" in said


def test_a_password_in_the_redis_url_is_refused_and_not_repeated(fails):
    said = fails("up", "--redis-url", "redis://store:hunter2@localhost/0")
    assert "--redis-password-file" in said
    assert "hunter2" not in said


def test_there_is_no_option_that_takes_a_secret():
    for command in ("chat", "status", "adapters list", "tenants add", "up", "bench"):
        done = subprocess.run(
            [EDGELORA, *command.split(), "--help"], capture_output=True, text=True, check=True
        )
        assert "--api-key " not in done.stdout
        assert "--password" not in done.stdout


def test_a_damaged_state_file_is_one_line(fails, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/stack.json").write_text("{")
    assert "remove it and start the stack again" in fails("status")


def test_an_unexpected_error_shows_its_traceback_only_on_request(fails, monkeypatch):
    def break_it(*_arguments, **_options):
        raise RuntimeError("inner words")

    monkeypatch.setattr("edgelora.cli.doctor.layout_of", break_it)
    said = fails("doctor")
    assert "an unexpected RuntimeError occurred" in said
    assert "EDGELORA_DEBUG=1" in said
    assert "inner words" not in said
    monkeypatch.setenv("EDGELORA_DEBUG", "1")
    with pytest.raises(RuntimeError, match="inner words"):
        run(["doctor"])


def test_a_missing_package_is_said_with_the_remedy(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "edgelora.cli.training", None)
    said = fails("train", "--demo", "email")
    assert f"`{sys.executable} -m pip install -e '.[train]'` in the source tree" in said


def test_a_reader_that_has_enough_gets_no_complaint():
    script = f"{EDGELORA} train --help | head -n 1; echo status ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""


def test_version_and_help_answer_without_a_stack():
    for arguments, words in ((["--version"], "edgelora 0.1.0"), ([], "Commands:")):
        done = subprocess.run([EDGELORA, *arguments], capture_output=True, text=True, check=True)
        assert words in done.stdout


@pytest.mark.parametrize(
    "command",
    ["up", "chat", "adapters", "tenants", "status", "doctor", "model", "train", "bench"],
)
def test_every_help_text_has_an_example_and_no_colour_without_a_terminal(command, capsys):
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"edgelora {command}" in text.split("Example", 1)[1]
    assert "\x1b" not in text


def test_a_command_does_not_import_what_it_does_not_need():
    script = (
        "import sys; from edgelora.cli.main import run; run(['--help']); run(['up', '--help']);"
        "print([name for name in ('torch', 'transformers', 'peft') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stdout.rstrip().endswith("[]")


def test_names_from_files_of_others_steer_no_terminal_and_fill_none(fails, tmp_path):
    index = '{"weight_map": {"a": "\\u001b]0;title\\u0007\\u202e' + "x" * 9000 + '"}}'
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "llama"}')
    (source / "model.safetensors.index.json").write_text(index)
    # Too long a name for a file at all, and then one that could be.
    for name in (index, index.replace("x" * 9000, "x" * 90)):
        (source / "model.safetensors.index.json").write_text(name)
        said = fails("model", "prepare", str(source), "--name", "other")
        assert len(said) < 2100 and not {"\x1b", "\x07", "\u202e"} & set(said)


def test_a_message_that_is_no_text_is_refused_without_its_bytes(fails, monkeypatch):
    data = io.BytesIO("grün".encode("latin-1"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data, "utf-8", errors="surrogateescape"))
    monkeypatch.setenv("EDGELORA_API_KEY", "el_key")
    said = fails("chat", "--address", "127.0.0.1:1")
    assert "standard input is not UTF-8 text" in said
    assert "gr" not in said
