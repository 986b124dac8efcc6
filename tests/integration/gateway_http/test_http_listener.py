"""The listener's sockets."""

import socket

import httpx
import pytest
from starlette.responses import PlainTextResponse

from services.gateway.http.connection import BoundedConnection
from services.gateway.http.listener import HttpListener

pytestmark = pytest.mark.integration


async def test_small_pieces_do_not_wait_for_the_acknowledgement_of_the_last_one(monkeypatch):
    """Without TCP_NODELAY the first token over HTTP comes 40 ms later."""
    delays_off = []

    class Seen(BoundedConnection):
        def connection_made(self, transport):
            connected = transport.get_extra_info("socket")
            delays_off.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    monkeypatch.setattr("services.gateway.http.listener.BoundedConnection", Seen)
    listener = HttpListener(PlainTextResponse("here"), "127.0.0.1:0")
    async with listener.serving(), httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{listener.bound_port}/")
    assert answer.text == "here"
    assert delays_off == [1]
