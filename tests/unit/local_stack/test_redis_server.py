"""The private Redis, really started: no port, no default user, only the store's rights."""

import asyncio
import os
import stat
from contextlib import asynccontextmanager

import psutil
import pytest

from edgelora.local_stack import redis_server
from edgelora.local_stack.processes import ChildProcess
from edgelora.local_stack.redis_binary import find_redis_binary
from edgelora.local_stack.redis_rights import COMMANDS, KEY_PREFIX, USER

PASSWORD = "correct-horse"


@asynccontextmanager
async def running(tmp_path):
    socket = tmp_path / "redis.sock"
    config = redis_server.write_config(tmp_path, socket, PASSWORD)
    server = ChildProcess(
        [str(find_redis_binary().path), str(config)],
        environ=os.environ,
        log=tmp_path / "redis.log",
        pid_file=tmp_path / "redis.pid",
    )
    try:
        async with asyncio.timeout(20):
            while not await redis_server.answers(socket, PASSWORD):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield server, socket
    finally:
        await server.stop(5)


async def ask(socket, *commands):
    """Sends commands on one connection and returns the first line of each reply."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        replies = []
        for command in commands:
            writer.write(redis_server._command(*command))
            replies.append((await reader.readline()).decode().strip())
        return replies
    finally:
        writer.close()
        await writer.wait_closed()


async def test_it_lets_in_the_store_and_nobody_else_T21(tmp_path):
    async with running(tmp_path) as (_, socket):
        assert not await redis_server.answers(socket, "wrong")
        (reply,) = await ask(socket, ("PING",))
        assert reply.startswith("-NOAUTH")
        _, pong = await ask(socket, ("AUTH", USER, PASSWORD), ("PING",))
        assert pong == "+PONG"


@pytest.mark.parametrize(
    "command",
    [
        ("CONFIG", "GET", "*"),
        ("KEYS", "*"),
        ("EVAL", "return 1", "0"),
        ("MODULE", "LIST"),
        ("DEBUG", "SLEEP", "0"),
        ("FLUSHALL",),
        ("SHUTDOWN",),
        ("ACL", "LIST"),
        ("SAVE",),
        ("REPLICAOF", "NO", "ONE"),
        ("HSET", "elsewhere", "field", "value"),
        ("SUBSCRIBE", "elsewhere"),
    ],
    ids=" ".join,
)
async def test_the_stores_user_may_do_nothing_else_T21(tmp_path, command):
    async with running(tmp_path) as (_, socket):
        _, reply = await ask(socket, ("AUTH", USER, PASSWORD), command)
        assert reply.startswith(("-NOPERM", "-ERR DEBUG command not allowed"))


async def test_it_listens_on_no_port(tmp_path):
    async with running(tmp_path) as (server, socket):
        assert psutil.Process(server.pid).net_connections("inet") == []
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700


async def test_the_password_is_in_no_command_line_and_no_file(tmp_path):
    async with running(tmp_path) as (server, _):
        assert PASSWORD not in " ".join(psutil.Process(server.pid).cmdline())
        assert PASSWORD not in (tmp_path / "redis.conf").read_text()
        assert stat.S_IMODE((tmp_path / "redis.conf").stat().st_mode) == 0o600


async def test_a_directory_with_a_space_and_quotes_is_quoted(tmp_path):
    directory = tmp_path / 'odd "name" here'
    directory.mkdir()
    async with running(directory) as (_, socket):
        assert socket.exists()


def test_the_rights_name_single_commands_of_one_prefix():
    assert KEY_PREFIX == "edgelora:"
    assert not any(command.startswith(("@", "all")) for command in COMMANDS)
