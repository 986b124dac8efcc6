"""Mutated JSON bodies over every HTTP route of the tenants' door.

EDGELORA_FUZZ_DOORS=N (`make fuzz-doors`) sends N of them, by default a sample. A body is made of
the seed and its index alone; one that found something is kept in regressions.jsonl.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.routing import Route, Router

from services.gateway.http.tenant_app import tenant_app
from tests.support.door_seeds import BODIES, CANARY
from tests.support.fuzzed_doors import spread
from tests.support.http_wire import WireAnswer
from tests.support.json_mutations import mutated_body

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("EDGELORA_FUZZ_DOORS", "3000"))
SEED = os.environ.get("EDGELORA_FUZZ_DOORS_SEED", "doors")
REGRESSIONS = Path(__file__).with_name("regressions.jsonl")
NUM_CONNECTIONS = 8
WARM_UP = 1000
REFUSED = {400, 401, 403, 404, 405, 409, 413, 429}
LATER = 503
"""With the time to wait: a stand-in of a busy machine may answer late."""
_SEGMENTS = ("home", "stand-in", "0" * 32, CANARY, "..", "%", "\x00", "a" * 300, "\u202e", "a/b")


def routes() -> list[tuple[str, str]]:
    """(method, path) of every route, from the application itself."""
    app = tenant_app(*[None] * (tenant_app.__code__.co_argcount))
    assert isinstance(app, Router)
    return [
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted(route.methods or {"PATCH"})
    ]


ROUTES = routes()
READING = [
    (method, path) for method, path in ROUTES if method != "PATCH" for _ in BODIES.get(path, ())
]
"""Those that read a body, as often as they have different ones."""


def target(index: int) -> tuple[str, str, str]:
    """Method, path with its parameters filled in, and the route's own path."""
    chance = random.Random(f"{SEED} {index} target")
    method, route = chance.choice(ROUTES if chance.random() < 0.1 else READING)
    path = "/".join(
        quote(chance.choice(_SEGMENTS), safe="") if part.startswith("{") else part
        for part in route.split("/")
    )
    return method, path, route


def check(answer: WireAnswer, what: object) -> None:
    """What must hold of every answer: docs/http.md declares its status."""
    is_later = answer.status == LATER and "retry-after" in answer.headers
    assert answer.status == 200 or answer.status in REFUSED or is_later, (what, answer)
    if answer.status >= 400 and answer.body:
        assert json.loads(answer.body)["error"], what
        assert CANARY.encode() not in answer.body, (what, answer)


def test_every_route_that_reads_a_body_has_right_ones():
    writing = {path for method, path in ROUTES if method in ("POST", "DELETE")}
    without_body = {path for path in writing if path.startswith("/v1/sessions")}
    assert writing - without_body == set(BODIES)


async def test_no_body_over_http_harms_the_gateway(doors):
    wires = [doors.wire() for _ in range(NUM_CONNECTIONS)]
    statuses: Counter[int] = Counter()
    anything = [body for bodies in BODIES.values() for body in bodies]

    async def send(worker: int, index: int) -> None:
        method, path, route = target(index)
        body = mutated_body(BODIES.get(route, anything), SEED, index)
        answer = await wires[worker].call(method, path, body)
        check(answer, (index, method, path, body[:2000]))
        statuses[answer.status] += 1

    async def warm_up(worker: int, index: int) -> None:
        await send(worker, COUNT + index)

    before = await doors.gateway.holding()
    await spread(WARM_UP, NUM_CONNECTIONS, warm_up)
    await doors.close_wires()
    before = await doors.check(before)
    statuses.clear()
    await spread(COUNT, NUM_CONNECTIONS, send)
    await doors.close_wires()
    after = await doors.check(before)
    # Some were right, some were wrong: else this tried nothing.
    assert statuses[200] > COUNT / 50
    assert statuses[400] > COUNT / 10
    sys.stdout.write(f"\n{COUNT} bodies: {dict(statuses)}; before {before}, after {after}\n")


async def test_what_was_found_before_stays_mended(doors):
    before = await doors.gateway.holding()
    wire = doors.wire()
    for line in REGRESSIONS.read_text().splitlines():
        found = json.loads(line)
        body = base64.b64decode(found["body"])
        answer = await wire.call(found["method"], found["path"], body)
        check(answer, found["why"])
    await doors.close_wires()
    await doors.check(before)
