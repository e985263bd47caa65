"""Headless Chromium, Debian's own, driven by selenium."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.real_parts import program

PATIENCE = 30.0  # seconds; only a hang takes so long
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
KEYS = {
    "ArrowLeft": Keys.ARROW_LEFT,
    "ArrowRight": Keys.ARROW_RIGHT,
    "Home": Keys.HOME,
    "End": Keys.END,
    "Escape": Keys.ESCAPE,
}
DESKTOP = (1280, 1000)
PHONE = (320, 640)


class Browser:
    """One browser with one page."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def reset(self) -> None:
        """A desktop window on an empty page, and an empty console. What a page kept stays with
        its server's port, which no other test has."""
        self.leave()
        self.resize(DESKTOP)
        self.console()

    def leave(self) -> None:
        self.driver.get("about:blank")

    def open(self, url: str) -> None:
        self.driver.get(url)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [found.text for found in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def wait(self, what: Callable[[], object]) -> None:
        """Until `what` is true; elements that were replaced meanwhile are looked for again."""
        WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: what())

    def wait_for_text(self, selector: str, text: str) -> None:
        script = "return document.querySelector(arguments[0])?.textContent ?? ''"
        self.wait(lambda: text in str(self.run(script, selector)))

    def write(self, selector: str, text: str) -> None:
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def press(self, selector: str, key: str) -> None:
        """A key by its name in a page's events: ArrowLeft, Home."""
        self.find(selector).send_keys(KEYS.get(key, key))

    def point(self, selector: str, left: int, top: int) -> None:
        """Moves the pointer to a place within an element."""
        found = self.find(selector)
        width, height = found.size["width"], found.size["height"]
        to = left - width // 2, top - height // 2
        ActionChains(self.driver).move_to_element_with_offset(found, *to).perform()

    def run(self, script: str, *arguments: object) -> object:
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: object) -> object:
        """The last argument of the script takes its result."""
        return self.driver.execute_async_script(script, *arguments)

    def resize(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """The size of the page itself, which a window cannot have where it is narrow."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        metrics["mobile"] = size == PHONE  # whose scroll bars take no room
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def console(self) -> list[str]:
        """What was logged as an error or a warning since the last call."""
        return [json.dumps(entry) for entry in self.driver.get_log("browser")]

    def screenshot(self, path: Path) -> None:
        """The whole page, however high."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"captureBeyondViewport": True}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile of its own, closed at the end."""
    options = ChromeOptions()
    options.binary_location = program("chromium", package="chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "WARNING"})
    service = Service(program("chromedriver", package="chromium-driver"))
    driver = Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
