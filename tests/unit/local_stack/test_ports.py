"""The gateway's port: the one asked for or an error, never a surprise."""

import socket

import pytest

from edgelora.local_stack import ports
from edgelora.local_stack.errors import StackError


@pytest.fixture
def taken():
    with socket.socket() as server:
        server.bind((ports.HOST, 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_wanted_port_that_is_taken_is_an_error(taken):
    with pytest.raises(StackError, match=f"port {taken} is in use"):
        ports.choose_port(taken)


def test_zero_takes_a_free_port():
    assert ports.is_free(ports.choose_port(0))


def test_the_default_port_gives_way_when_it_is_taken(taken, monkeypatch):
    monkeypatch.setattr(ports, "DEFAULT_PORT", taken)
    chosen = ports.choose_port(None)
    assert chosen != taken
    assert ports.is_free(chosen)
    monkeypatch.setattr(ports, "DEFAULT_PORT", chosen)
    assert ports.choose_port(None) == chosen
