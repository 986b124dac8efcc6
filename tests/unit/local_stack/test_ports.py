"""The gateway's port: the one asked for or an error, never a surprise."""

import socket

import pytest

from edgelora.local_stack import ports
from edgelora.local_stack.errors import StackError
from edgelora.local_stack.ports import FIRST_METRICS_PORT


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


def test_metrics_ports_are_the_usual_ones_or_free_ones_and_all_different(monkeypatch):
    services = [f"s{number}" for number in range(5)]
    monkeypatch.setattr(ports, "is_free", lambda port: port != FIRST_METRICS_PORT + 2)
    drawn = iter([FIRST_METRICS_PORT, FIRST_METRICS_PORT + 1, 40_000])
    monkeypatch.setattr(ports, "_any_port", lambda: next(drawn))
    assert ports.choose_metrics_ports(services) == {
        "s0": FIRST_METRICS_PORT,
        "s1": FIRST_METRICS_PORT + 1,
        "s2": 40_000,
        "s3": FIRST_METRICS_PORT + 3,
        "s4": FIRST_METRICS_PORT + 4,
    }
