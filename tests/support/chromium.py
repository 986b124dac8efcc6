"""A real Chromium without a window, as Debian packages it."""

import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
"""Programs that a browser test needs and this machine lacks."""
LIMIT_S = 40.0
_DESKTOP = (1280, 900)
_PHONE = (360, 740)
# What Chromium remarks about every password form without a name; there are no names here.
_REMARKS = ("Password forms should have",)


class Chromium:
    """One browser; `driver` is Selenium's own."""

    def __init__(self, driver, origin):
        self.driver = driver
        self.origin = origin

    def open(self, path):
        self.driver.get(self.origin + path)

    def id(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        """The text of an element by its id, as it is now, also where it is redrawn."""
        return self.script("return document.getElementById(arguments[0]).innerText", name)

    def script(self, source, *arguments):
        return self.driver.execute_script(source, *arguments)

    def wait(self, condition):
        """Waits until a condition holds; returns its value."""
        return WebDriverWait(self.driver, LIMIT_S, poll_frequency=0.05).until(
            lambda _driver: condition()
        )

    def wait_for(self, name, *parts):
        """Waits until an element's text has all of the parts; returns the text."""

        def found():
            text = self.text(name)
            return text if all(part in text for part in parts) else ""

        return self.wait(found)

    def press(self, *keys):
        """Presses keys, wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def tab_to(self, name):
        """Reaches an element by its id with the Tab key alone."""
        for _ in range(60):
            self.press(Keys.TAB)
            if self.driver.switch_to.active_element.get_attribute("id") == name:
                return
        raise AssertionError(f"the Tab key does not reach {name}")

    def set_slider(self, slider, value):
        """Moves a slider with the arrow keys, as somebody without a mouse."""
        steps = round((value - float(slider.get_property("value"))) / 0.05)
        slider.send_keys((Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT) * abs(steps))

    @contextmanager
    def phone(self):
        """The screen of a phone, 360 pixels wide."""
        self._resize(*_PHONE, mobile=True)
        try:
            yield
        finally:
            self._resize(*_DESKTOP, mobile=False)

    def prefer(self, **features):
        """What the system prefers, for example `color_scheme="dark"`."""
        media = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})

    def complaints(self):
        """What the console has said since the last call."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if not any(remark in entry["message"] for remark in _REMARKS)
        ]

    def requested(self):
        """Every address that was asked for since the last call."""
        messages = (
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        )
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def save_screenshot(self, name, height=None):
        """Keeps a picture of the page where EDGELORA_SCREENSHOTS says so."""
        directory = os.environ.get("EDGELORA_SCREENSHOTS")
        if not directory:
            return
        Path(directory).mkdir(parents=True, exist_ok=True)
        width = self.script("return window.innerWidth")
        tall = height or min(6000, self.script("return document.documentElement.scrollHeight"))
        self._resize(width, tall, mobile=width < 500)
        self.driver.save_screenshot(str(Path(directory) / f"{name}.png"))
        self._resize(*(_PHONE if width < 500 else _DESKTOP), mobile=width < 500)

    def _resize(self, width, height, *, mobile):
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.wait(lambda: self.script("return window.innerWidth") == width)


@contextmanager
def chromium(origin):
    """A browser that can reach nothing but this machine."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests run as root in containers
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        browser = Chromium(driver, origin)
        browser._resize(*_DESKTOP, mobile=False)
        yield browser
    finally:
        driver.quit()
