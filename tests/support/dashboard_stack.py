"""The whole product as a user starts it, on a device whose sensors a test sets, with a browser."""

import json
from contextlib import contextmanager

import httpx

from tests.support.chromium import chromium
from tests.support.fake_sysfs import FakeSysfs
from tests.support.up_process import ROOT, up_process

TENANT = "kitchen"
ADAPTERS = ("recipes", "email")
HEAT = "sys/class/thermal/thermal_zone0/temp"
COOL = 41_500


class DashboardStack:
    """What the tests of the dashboard have in hand."""

    def __init__(self, up, sysfs, browser, urls):
        self.up = up
        self.sysfs = sysfs
        self.browser = browser
        self.url = urls["url"]
        self.operator_key = urls["key"]
        self.api_url = f"http://{up.state['http_address']}"

    @property
    def tenant_key(self):
        return (self.up.home / "keys" / f"{TENANT}.key").read_text().strip()

    def login(self):
        """Opens the dashboard with the operator's key, whatever was before."""
        self.browser.driver.delete_all_cookies()
        self.browser.open("/login")
        self.browser.id("key").send_keys(self.operator_key)
        self.browser.script("document.querySelector('form').requestSubmit()")
        self.browser.wait(lambda: self.browser.driver.title.startswith("Dashboard"))

    def nodes(self):
        """The documents of a stream of its own, without end."""
        with httpx.Client(base_url=self.url, timeout=30.0) as client:
            client.post("/login", data={"key": self.operator_key}, headers={"origin": self.url})
            with client.stream("GET", "/dash/stream") as answer:
                name = None
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: ") and name == "node":
                        yield json.loads(line.removeprefix("data: "))

    def node_where(self, is_true):
        """The first document of which the condition holds; the test's own limit ends the wait."""
        return next(node for node in self.nodes() if is_true(node))


@contextmanager
def dashboard_stack(directory):
    """A stack with one tenant and two adapters, and a browser that has not logged in."""
    sysfs = FakeSysfs(directory / "root")
    sysfs.root.mkdir()
    sysfs.add_zone(0, "x86_pkg_temp", COOL)
    sysfs.add_cpu(0, 2_400_000, 3_600_000)
    sysfs.add_supply("BAT0", type="Battery", capacity=76, status="Discharging", power_now=8_200_000)
    sysfs.set_memory(total_kib=8_000_000, available_kib=5_000_000)
    settings = {
        "EDGELORA_MONITOR_ROOT": str(sysfs.root),
        "EDGELORA_MONITOR_INTERVAL": "200ms",
        "EDGELORA_MONITOR_HOLD": "1s",
        "EDGELORA_MONITOR_DWELL": "1s",
    }
    ports = ("--port", "0", "--http-port", "0", "--dashboard-port", "0")
    with up_process(directory, "--no-demo", *ports, settings=settings) as up:
        up.start().wait_until_serving()
        up.run("tenants", "add", TENANT)
        for name in ADAPTERS:
            up.run(
                "adapters", "add", str(ROOT / "demo" / name), "--alias", name, "--tenant", TENANT
            )
        urls = up.run_json("dashboard", "--show-key")
        with chromium(urls["url"]) as browser:
            yield DashboardStack(up, sysfs, browser, urls)
