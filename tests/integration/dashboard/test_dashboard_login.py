"""Who gets in, and what a page elsewhere can not do."""

import ssl

import pytest
import pytest_asyncio

from tests.support.dashboard_client import dashboard_client
from tests.support.gateway_bench import gateway_bench
from tests.support.tls_certificate import make_certificate

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway():
    """One for all tests here: none of them changes what the others see."""
    async with gateway_bench() as bench:
        await bench.start()
        yield bench


@pytest_asyncio.fixture(loop_scope="module")
async def browser(gateway):
    async with dashboard_client(gateway.dashboard_port) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def operator(gateway, browser):
    assert (await browser.login(gateway.operator_key)).status_code == 303
    return browser


INSIDE = ("/", "/playground", "/dash/stream", "/dash/session", "/static/dashboard.js", "/v1/models")


@pytest.mark.parametrize("path", INSIDE)
async def test_nothing_is_seen_without_a_login(browser, path):
    answer = await browser.http.get(path)
    assert answer.status_code == 401
    page = await browser.http.get(path, headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")


@pytest.mark.parametrize(
    "path", ["/log%0Ain", "/login%3F", "/login%23", "/static/style.css%09", "//x/login"]
)
async def test_a_path_that_a_parser_makes_one_of_the_open_ones_is_not_open(browser, path):
    answer = await browser.http.request("GET", f"{browser.origin}{path}")
    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["/login", "/static/style.css", "/static/theme.js"])
async def test_the_login_page_is_for_everybody(browser, path):
    assert (await browser.http.get(path)).status_code == 200


@pytest.mark.parametrize("path", INSIDE[:2] + INSIDE[3:5])
async def test_the_key_opens_the_rest(operator, path):
    assert (await operator.http.get(path)).is_success


@pytest.mark.parametrize("key", ["", "wrong", "0" * 64, "\x00", "k\xe9y", "x" * 4000])
async def test_a_wrong_key_is_refused_in_the_same_words(browser, key):
    answer = await browser.login(key)
    assert answer.status_code == 403
    assert "The key is not right." in answer.text
    assert "set-cookie" not in answer.headers
    assert key not in answer.text or key in ("", "wrong")


@pytest.mark.parametrize("body", [b"key=" + b"x" * 5000, b"&".join([b"a=b"] * 50), b"\xff\xfe"])
async def test_a_body_that_is_no_login_form_is_refused(browser, body):
    answer = await browser.http.post("/login", content=body, headers={"origin": browser.origin})
    assert answer.status_code in (400, 403)


async def test_the_cookie_is_for_this_browser_and_no_script(browser, gateway):
    answer = await browser.login(gateway.operator_key)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert "Max-Age=43200" in cookie
    assert gateway.operator_key not in cookie


async def test_after_the_logout_the_cookie_is_worth_nothing(operator):
    kept = dict(operator.http.cookies)
    answer = await operator.post("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    operator.http.cookies.update(kept)
    assert (await operator.http.get("/dash/session")).status_code == 401


@pytest.mark.parametrize("path", ["/login", "/logout", "/v1/chat/completions"])
@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
async def test_a_page_elsewhere_can_not_post(operator, gateway, path, origin):
    headers = {"origin": origin} if origin else {}
    answer = await operator.http.post(path, data={"key": gateway.operator_key}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1.nip.example", ""])
async def test_a_name_that_is_not_ours_is_refused_even_with_a_session(operator, host):
    """DNS rebinding: a page of that name would otherwise be of our origin."""
    answer = await operator.http.get("/dash/session", headers={"host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8081", "192.168.1.7:8081", "[::1]:8081"])
async def test_addresses_and_localhost_are_ours(operator, host):
    assert (await operator.http.get("/dash/session", headers={"host": host})).status_code == 204


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/login", 303),
        ("/static/chart.js", 200),
        ("/nothing", 404),
        ("/v1/models", 401),
    ],
)
async def test_every_answer_is_locked_down(operator, path, status):
    answer = await operator.http.get(path)
    assert answer.status_code == status
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == (
        "no-cache" if path.startswith("/static/") else "no-store"
    )


async def test_no_page_has_inline_script_or_style(operator):
    for path in ("/", "/playground", "/login"):
        text = (await operator.http.get(path, follow_redirects=True)).text
        assert "<style" not in text
        assert " style=" not in text
        assert " on" not in [part[:3] for part in text.split("=")]
        assert text.count("<script") == text.count("<script src=") + text.count(
            '<script type="module" src='
        )
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text


@pytest.mark.parametrize("name", ["../pages.py", "%2e%2e/pages.py", "nothing.js", "login.html"])
async def test_only_the_dashboards_own_files_are_served(operator, name):
    assert (await operator.http.get(f"/static/{name}")).status_code == 404


async def test_a_file_that_has_not_changed_is_not_sent_again(operator):
    first = await operator.http.get("/static/chart.js")
    again = await operator.http.get(
        "/static/chart.js", headers={"if-none-match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


async def test_over_tls_the_cookie_never_travels_without_it(tmp_path):
    certificate = make_certificate(tmp_path)
    async with gateway_bench() as bench:
        await bench.start(
            TLS_CERT_FILE=str(certificate.certificate), TLS_KEY_FILE=str(certificate.key)
        )
        trusted = ssl.create_default_context(cafile=certificate.certificate)
        async with dashboard_client(bench.dashboard_port, tls=trusted) as browser:
            answer = await browser.login(bench.operator_key)
            assert answer.status_code == 303
            assert "; Secure" in answer.headers["set-cookie"]
            assert (await browser.http.get("/dash/session")).status_code == 204
