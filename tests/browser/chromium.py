"""A headless Chromium, where there is one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MISSING = "no Chromium with its driver here: apt-get install chromium chromium-driver"


@contextmanager
def open_browser(width: int = 1280, height: int = 900) -> Iterator[object]:
    """Starts Chromium, or skips the test with the way to get it."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip(MISSING)
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests may run as root
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def read_console(chrome) -> list[str]:
    """What the page wrote to the console since the last look."""
    return [f"{entry['level']}: {entry['message']}" for entry in chrome.get_log("browser")]


def read_requests(chrome) -> list[str]:
    """The addresses that the page asked for since the last look."""
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
