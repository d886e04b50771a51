"""The real server over tables made here, and a real Chromium in front of it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.serve.dashboard.tables import archive, fleet, shop
from tests.support.tables import append, make_tables


class Site(NamedTuple):
    """A dashboard that is being served."""

    base: str
    tables: Path
    now: int
    """What the tables call now; epoch milliseconds."""


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("dashboard")
    now = time.time_ns() // 1_000_000
    make_tables(root / "tables")
    append(root / "tables", [row for group in [*shop(now), fleet(now)] for row in group.taken()])
    archive(root / "tables", now)
    command = [sys.executable, "-c", "from streaming.cli.main import main; main()", "dashboard", "--port", "0"]
    environment = {**os.environ, "REBALANCE_WATCH_RUNTIME__ROOT": str(root)}
    with (root / "said").open("w+") as said, subprocess.Popen(command, env=environment, stderr=said) as server:
        try:
            yield Site(_address(server, root / "said"), root / "tables", now)
        finally:
            server.terminate()
            server.wait(20)
    assert "Traceback" not in (root / "said").read_text()


def _address(server: subprocess.Popen, said: Path) -> str:
    for _ in range(600):
        found = re.search(r"http://[\d.:]+", said.read_text())
        if found:
            return found[0]
        assert server.poll() is None, said.read_text()
        time.sleep(0.1)
    raise AssertionError(said.read_text())


expect.set_options(timeout=40_000)  # beside other tests on two cores
_SIZES = {1440: 900, 390: 844}
"""A desk's screen and a phone's: the width and its height."""


@pytest.fixture(scope="module")
def profile(browser) -> Callable[[int, str], BrowserContext]:
    """A browser's profile, by the screen's width and the system's colour scheme; it keeps what it has loaded."""

    @cache
    def made(width: int, scheme: str) -> BrowserContext:
        return browser.new_context(viewport={"width": width, "height": _SIZES[width]}, color_scheme=scheme)

    return made


@pytest.fixture
def open_page(site, profile):
    """Opens a page; at the end nothing has been asked of any other host, and no script has failed."""
    pages, asked, failed = [], [], []

    def opened(path: str, width: int = 1440, scheme: str = "light") -> Page:
        page = profile(width, scheme).new_page()
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda told: failed.append(told.text) if told.type == "error" else None)
        page.set_default_timeout(40_000)
        page.goto(site.base + path)
        page.get_by_role("heading", level=1).wait_for()
        return page

    yield opened
    for page in pages:
        page.close()
    host = site.base.removeprefix("http://")
    assert asked
    assert not [url for url in asked if not re.match(rf"(https?|wss?)://{re.escape(host)}/|data:|blob:", url)]
    assert not [text for text in failed if "responded with a status of 40" not in text]  # no such page
