"""The operator's browser without a screen: cookies, forms and the event stream."""

import json
from contextlib import asynccontextmanager

import httpx


class DashboardClient:
    """One browser. `http` is for whatever a test wants to send by itself."""

    def __init__(self, port, tls=None):
        self.port = port
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.http = httpx.AsyncClient(base_url=self.origin, timeout=30.0, verify=tls or True)

    async def post(self, path, data=None, **headers):
        """A form of the dashboard's own page."""
        return await self.http.post(path, data=data, headers={"origin": self.origin, **headers})

    async def login(self, key):
        """Logs in; the cookie is kept."""
        return await self.post("/login", {"key": key})

    @asynccontextmanager
    async def stream(self):
        """Yields (name, document) of every event until the server ends the stream."""
        async with self.http.stream("GET", "/dash/stream") as answer:
            assert answer.status_code == 200, answer.status_code
            yield _events(answer)


async def _events(answer):
    name = None
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def node_where(events, is_true):
    """The first `node` document of which the condition holds."""
    async for name, document in events:
        if name == "node" and is_true(document):
            return document
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def dashboard_client(port, tls=None):
    """A browser that has not logged in; `tls`: what it trusts, None for plain HTTP."""
    client = DashboardClient(port, tls)
    async with client.http:
        yield client
