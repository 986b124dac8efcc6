"""Errors over HTTP: OpenAI's shape and a request id on every one, whoever asks for whatever."""

import httpx
import pytest

from tests.support.http_wire import HttpWire
from tests.support.openai_node import chat_body, openai_node

pytestmark = pytest.mark.integration


async def test_paths_and_methods_that_are_not_there_have_the_shape_of_errors(node):
    async with node.http() as http:
        for method, path, status in (
            ("GET", "/nowhere", 404),
            ("GET", "/chat/completions/", 404),
            ("GET", "//models", 404),
            ("GET", "/models/../../healthz/x", 404),
            ("GET", "/chat/completions", 405),
            ("DELETE", "/models", 405),
            ("PUT", "/completions", 405),
            ("BREW", "/models", 405),
            ("OPTIONS", "/chat/completions", 405),
        ):
            answer = await http.request(method, path)
            assert answer.status_code == status, path
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
            assert len(answer.headers["x-request-id"]) == 32
            assert ("allow" in answer.headers) == (status == 405)
        assert (await http.head("/models")).status_code == 200


async def test_no_credential_is_told_from_a_wrong_one_t39(node):
    known = node.key
    wrong = known[:-1] + ("a" if known[-1] != "a" else "b")
    answers = set()
    for headers in (
        [],
        ["Authorization: Bearer"],
        ["Authorization: Bearer nonsense"],
        [f"Authorization: Bearer {wrong}"],
        [f"Authorization: Basic {known}"],
        [f"Authorization: Bearer {known} {known}"],
        [f"Authorization: Bearer {known}", f"Authorization: Bearer {known}"],
        [f"X-Api-Key: {known}"],
        [f"Cookie: key={known}"],
    ):
        wire = HttpWire(node.bench.http_port, *headers)
        answer = await wire.call("GET", "/v1/models")
        await wire.close()
        answers.add((answer.status, answer.headers["www-authenticate"], answer.body))
    assert len(answers) == 1
    ((status, scheme, body),) = answers
    assert (status, scheme) == (401, "Bearer")
    assert b"authentication_error" in body


async def test_a_revoked_key_gets_the_same_words(node):
    async with node.http() as http:
        unknown = await http.get("/models", headers={"authorization": "Bearer x"})
        admin = await node.bench.admin()
        await admin.revoke_tenant("acme")
        revoked = await http.get("/models")
    assert (revoked.status_code, revoked.content) == (401, unknown.content)


async def test_nothing_but_the_key_says_who_asks_t23(node):
    await node.bench.client("victim")
    for header in ("x-tenant-id", "X-Tenant-Id", "x_tenant_id", "x-tenant-id-bin", "tenant"):
        wire = node.wire(f"{header}: victim", f"{header}: victim")
        answer = await wire.call("GET", "/v1/usage?tenant=victim&x-tenant-id=victim&key=x")
        await wire.close()
        assert b'"tenant":"acme"' in answer.body
    async with node.http() as http:
        for fields in ({"tenant": "victim"}, {"tenant_id": "victim"}, {"x-tenant-id": "victim"}):
            answer = await http.post("/chat/completions", json=chat_body(**fields))
            assert answer.status_code == 400


async def test_a_request_id_of_the_client_is_not_taken(node):
    async with node.http(**{"x-request-id": "mine", "request-id": "mine"}) as http:
        first, second = await http.get("/models"), await http.get("/models")
    assert first.headers["x-request-id"] != second.headers["x-request-id"] != "mine"
    assert "mine" not in first.headers["x-request-id"]


async def test_a_quota_that_is_used_up_is_429_with_a_wait(node):
    await node.bench.client("small", max_concurrent_requests=1)
    node.worker.hold_after = 1
    async with (
        node.http(authorization=f"Bearer {node.bench.keys['small']}") as http,
        http.stream("POST", "/chat/completions", json=chat_body(stream=True)) as held,
    ):
        assert held.status_code == 200
        answer = await http.post("/chat/completions", json=chat_body())
        assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
        assert int(answer.headers["retry-after"]) >= 1
        node.worker.go_on.set()
        assert "[DONE]" in (await held.aread()).decode()


async def test_a_deadline_is_504(bench):
    node = await openai_node(bench, DEFAULT_DEADLINE="300ms")
    node.worker.hold_after = 1
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body())
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
        streamed = await http.post("/chat/completions", json=chat_body(stream=True))
    assert "deadline_exceeded" in streamed.text
    assert "[DONE]" not in streamed.text


async def test_the_client_may_ask_for_less_time(bench):
    node = await openai_node(bench, DEFAULT_DEADLINE="1h")
    node.worker.hold_after = 1
    async with node.http() as http:
        answer = await http.post("/chat/completions", json=chat_body(deadline_s=0.3))
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")


async def test_the_client_may_ask_for_more_time(bench):
    node = await openai_node(bench, DEFAULT_DEADLINE="1ms")
    async with node.http() as http:
        assert (await http.post("/chat/completions", json=chat_body())).status_code == 504
        assert (await http.post("/chat/completions", json=chat_body(deadline_s=60))).is_success


async def test_health_is_for_everybody_and_says_little(node):
    async with httpx.AsyncClient(base_url=node.root, trust_env=False) as http:
        answer = await http.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        node.bench.scheduler.kill()
        while (answer := await http.get("/healthz")).status_code == 200:
            pass
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_usage_is_the_callers_own(node):
    async with node.http() as http:
        await http.post("/chat/completions", json=chat_body())
        usage = (await http.get("/usage")).json()
        assert (usage["tenant"], usage["requests"], usage["completion_tokens"]) == ("acme", 1, 3)
        assert usage["quotas"]["concurrent_requests"] == 8
    await node.bench.client("other")
    async with node.http(authorization=f"Bearer {node.bench.keys['other']}") as http:
        assert (await http.get("/usage")).json()["requests"] == 0
