"""The dashboard and the playground in a real browser, on the real model."""

import os
import signal

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.support.api_load import api_load
from tests.support.chromium import MISSING
from tests.support.dashboard_stack import ADAPTERS, COOL, HEAT, TENANT, dashboard_stack
from tests.support.page_audit import focus, low_contrast, too_wide, without_name

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(MISSING), reason=f"needs Debian's chromium and chromium-driver: no {MISSING}"
    ),
]

PAGES = ("/login", "/", "/playground")
BASE = "smollm2-135m-instruct"
RECIPES = f"{TENANT}/recipes"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with dashboard_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def browser(stack):
    """Logged in; the console stays silent, and nothing is asked of anybody else."""
    browser = stack.browser
    stack.login()
    browser.complaints()
    yield browser
    assert browser.complaints() == []
    requested = browser.requested()
    assert requested
    assert [url for url in requested if not url.startswith(f"{stack.url}/")] == []


@pytest.fixture
def playground(stack, browser):
    """With the tenant's key."""
    browser.open("/playground")
    browser.id("tenant-key").send_keys(stack.tenant_key, Keys.ENTER)
    browser.wait(lambda: browser.id("adapter").is_enabled())
    return browser


def ask(browser, model, prompt, max_tokens):
    """Fills the form and sends it."""
    browser.script(
        "for (const [id, value] of Object.entries(arguments[0])) {"
        " const e = document.getElementById(id); e.value = value;"
        " e.dispatchEvent(new Event('change', {bubbles: true})); }",
        {"adapter": model, "prompt": prompt, "max-tokens": max_tokens},
    )
    browser.id("send").click()


def pane(browser, name):
    """Its text and how far it is."""
    return browser.script(
        "const pane = document.querySelector(`[data-pane=${arguments[0]}]`);"
        "return [pane.querySelector('.answer').textContent,"
        " pane.querySelector('.progress').textContent, pane.dataset.strength ?? null];",
        name,
    )


def whole_answer(browser, name="A"):
    """The text, once the answer has ended well and the form is free again."""
    browser.wait(lambda: "ended by" in pane(browser, name)[1] and browser.id("send").is_enabled())
    return pane(browser, name)[0]


def test_a_wrong_key_is_refused_and_the_right_one_opens(stack):
    browser = stack.browser
    browser.driver.delete_all_cookies()
    browser.open("/playground")
    assert browser.driver.title.startswith("Log in")
    browser.id("key").send_keys("0" * 64, Keys.ENTER)
    browser.wait(lambda: "The key is not right" in browser.script("return document.body.innerText"))
    assert browser.driver.get_cookies() == []
    browser.save_screenshot("login")
    browser.id("key").send_keys(stack.operator_key, Keys.ENTER)
    browser.wait(lambda: browser.driver.title.startswith("Dashboard"))
    assert browser.script("return document.cookie") == ""


def test_values_move_under_load_and_the_shares_add_up(stack, browser):
    browser.wait_for("connection", "live")
    with api_load(stack.api_url, stack.tenant_key, [*ADAPTERS, BASE]) as failures:
        browser.wait_for("shares", RECIPES, f"{TENANT}/email", "base model")
        before = browser.wait_for("engine-tokens", "/s")
        browser.wait(lambda: browser.text("engine-tokens") != before)
        browser.wait_for("tiles", RECIPES, "in a slot", "in use by")
        browser.wait_for("queues", "interactive")
        node = stack.node_where(
            lambda node: (
                node["use"] and len(node["use"]["adapters"]) == 3 and node["use"]["share"] > 0
            )
        )
        browser.wait_for("latencies", "interactive, first token", "ms")
        browser.wait_for("processes", "inference", "MB", "cores")
        assert browser.text("hit-0") != "unknown"
        browser.save_screenshot("dashboard-light")
        assert low_contrast(browser) == []
        assert without_name(browser) == []
        browser.prefer(color_scheme="dark")
        assert low_contrast(browser) == []
        browser.save_screenshot("dashboard-dark")
        browser.prefer(color_scheme="light")
    assert failures == []
    total = sum(adapter["share"] for adapter in node["use"]["adapters"])
    assert total == pytest.approx(node["use"]["share"], rel=0.02)
    tokens_per_s = sum(adapter["tokens_per_s"] for adapter in node["use"]["adapters"])
    assert tokens_per_s == pytest.approx(node["use"]["tokens_per_s"], rel=0.02)


def test_heat_shows_with_its_reason_and_what_it_takes_away(stack, browser):
    browser.wait_for("temperature", "41.5 °C")
    assert browser.text("frequency") == "2.40 GHz of 3.60 GHz"
    assert "76 %, discharging, 8.2 W" in browser.text("battery")
    stack.sysfs.write(HEAT, 65_000)
    browser.wait_for("pressures", "critical", "65.0 °C")
    browser.wait_for("pressure-changes", "critical", "x86_pkg_temp")
    browser.wait(lambda: "Nothing is limited" not in browser.text("restrictions"))
    browser.save_screenshot("pressure")
    stack.sysfs.write(HEAT, COOL)
    browser.wait_for("temperature", "41.5 °C")
    browser.wait(lambda: "critical" not in browser.text("pressures"))


def test_a_sensor_that_is_gone_is_unknown_and_not_zero(stack, browser):
    browser.wait_for("temperature", "41.5 °C")
    stack.sysfs.remove(HEAT)
    browser.wait_for("temperature", "unknown")
    browser.wait_for("pressures", "unknown")
    stack.sysfs.write(HEAT, COOL)
    browser.wait_for("temperature", "41.5 °C")


def test_a_refusal_names_its_quota(stack, browser):
    stack.up.run("tenants", "add", "small", "--max-concurrent", "1")
    small = (stack.up.home / "keys" / "small.key").read_text().strip()
    with api_load(stack.api_url, small, [BASE, BASE]) as failures:
        browser.wait_for("refusals", "small", "interactive", "tenant quota exceeded")
    assert "max concurrent requests" in browser.text("refusals")
    assert len(failures) == 1


def test_a_lost_connection_is_said_and_the_values_do_not_look_live(stack, browser):
    browser.wait_for("connection", "live")
    gateway = stack.up.pids()["gateway"]
    os.kill(gateway, signal.SIGSTOP)
    try:
        browser.wait_for("lost", "Connection lost, trying again", "is from")
        assert browser.text("connection") == "connection lost, trying again"
        assert "grayscale" in browser.script(
            "return getComputedStyle(document.querySelector('.panels')).filter"
        )
        browser.save_screenshot("connection-lost")
    finally:
        os.kill(gateway, signal.SIGCONT)
    browser.wait_for("connection", "live")
    assert not browser.id("lost").is_displayed()


def test_strength_0_is_the_base_and_another_is_not(playground):
    prompt = "Dinner for two, no meat?"
    playground.id("compare").click()
    playground.set_slider(playground.id("strength-A"), 0)
    playground.set_slider(playground.id("strength-B"), 1.5)
    ask(playground, "recipes", prompt, 60)
    at_0, at_1_5 = whole_answer(playground, "A"), whole_answer(playground, "B")
    playground.save_screenshot("playground-side-by-side")
    assert low_contrast(playground) == []
    assert without_name(playground) == []
    playground.id("compare").click()
    ask(playground, BASE, prompt, 60)
    assert whole_answer(playground) == at_0 != at_1_5


def test_the_slider_changes_a_running_answer(playground):
    prompt = "Write a very long story about a village by the sea."
    playground.set_slider(playground.id("strength-A"), 0.2)
    ask(playground, "recipes", prompt, 700)
    unchanged = whole_answer(playground)
    ask(playground, "recipes", prompt, 700)
    playground.wait(lambda: len(pane(playground, "A")[0]) > 20)
    playground.set_slider(playground.id("strength-A"), 1.5)
    changed = whole_answer(playground)
    assert pane(playground, "A")[2] == "1.50"
    assert changed[:20] == unchanged[:20]
    assert changed != unchanged


def test_stop_ends_the_answer_here_and_at_the_worker(stack, playground):
    ask(playground, "recipes", "Write a very long story about a village.", 1500)
    playground.wait(lambda: pane(playground, "A")[0])
    playground.id("stop").click()
    playground.wait(lambda: pane(playground, "A")[1] == "Stopped.")
    assert playground.id("send").is_enabled()
    stack.node_where(lambda node: node["engine"] and node["engine"]["num_running"] == 0)


def test_an_error_is_shown_in_plain_words(stack):
    browser = stack.browser
    stack.login()
    browser.open("/playground")
    browser.id("tenant-key").send_keys("wrong", Keys.ENTER)
    browser.wait_for("error", "a valid API key is required")
    assert not browser.id("send").is_enabled()


def test_the_tenants_key_is_kept_nowhere(stack, playground):
    assert stack.tenant_key not in playground.script(
        "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, "
        "location.href, document.body.innerHTML])"
    )
    playground.open("/playground")
    assert playground.id("tenant-key").get_property("value") == ""
    assert not playground.id("send").is_enabled()


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_is_wide_enough(browser, path):
    if path == "/login":
        browser.driver.delete_all_cookies()
    with browser.phone():
        browser.open(path)
        if path == "/":
            browser.wait_for("shares", "")
            browser.wait_for("connection", "live")
        assert too_wide(browser) == [0, []]
        browser.save_screenshot(f"phone{path.replace('/', '-')}")


def test_the_keyboard_alone_is_enough(stack, browser):
    browser.open("/playground")
    browser.press(Keys.TAB)
    assert browser.script("return document.activeElement.className") == "skip"
    browser.tab_to("tenant-key")
    browser.press(stack.tenant_key, Keys.ENTER)
    # The focus goes on to where one goes on.
    browser.wait(lambda: focus(browser)[0] == "adapter")
    browser.press("recipes")
    browser.tab_to("max-tokens")
    browser.press(Keys.CONTROL, "a", Keys.NULL, "12")
    browser.tab_to("send")
    browser.press(Keys.ENTER)
    assert whole_answer(browser)
    browser.tab_to("strength-A")
    assert focus(browser) == ["strength-A", True]


@pytest.mark.parametrize("path", PAGES)
def test_the_focus_can_be_seen_wherever_it_goes(browser, path):
    if path == "/login":
        browser.driver.delete_all_cookies()
    browser.open(path)
    seen = []
    while len(seen) < 40:
        browser.press(Keys.TAB)
        name, is_visible = focus(browser)
        if name == "BODY":
            break
        seen.append(name)
        assert is_visible, seen
    assert len(seen) >= 2


def test_the_system_chooses_the_colours_until_somebody_does(browser):
    def ground():
        return browser.script("return getComputedStyle(document.body).backgroundColor")

    def choose(colours):
        Select(browser.id("theme")).select_by_visible_text(colours)

    light = ground()
    browser.prefer(color_scheme="dark")
    dark = ground()
    assert dark != light
    choose("Light")
    browser.wait(lambda: ground() == light)
    browser.open("/playground")
    assert ground() == light
    choose("Dark")
    browser.prefer(color_scheme="light")
    browser.wait(lambda: ground() == dark)
    choose("System")
    browser.wait(lambda: ground() == light)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_texts_stand_out_and_everything_has_a_name(browser, path, scheme):
    if path == "/login":
        browser.driver.delete_all_cookies()
    browser.prefer(color_scheme=scheme)
    browser.open(path)
    assert low_contrast(browser) == []
    assert without_name(browser) == []
    browser.prefer(color_scheme="light")


def test_nothing_moves_by_itself(browser):
    durations = browser.script(
        "return [...new Set([...document.querySelectorAll('*')].map("
        "(e) => getComputedStyle(e).transitionDuration + getComputedStyle(e).animationName))]"
    )
    assert durations == ["0snone"]


def test_charts_have_a_table_of_what_they_draw(browser):
    browser.wait_for("connection", "live")
    table = "document.querySelector('#memory-chart details')"
    browser.script(f"{table}.open = true")
    browser.wait(lambda: "MB" in browser.script(f"return {table}.innerText"))
    label = browser.script("return document.querySelector('#memory-chart svg').ariaLabel")
    assert label.startswith("Memory of each process. ")
    assert "inference" in label


def test_after_the_logout_the_dashboard_is_closed(browser):
    browser.script("document.querySelector('form[action=\"/logout\"]').requestSubmit()")
    browser.wait(lambda: browser.driver.title.startswith("Log in"))
    browser.open("/")
    assert browser.driver.title.startswith("Log in")
