"""The real server over tables made here, and a real Chromium in front of it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page

from tests.streaming.dashboard.tables import append, fleet, make_tables, shop


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


@pytest.fixture
def open_page(site, browser):
    """Opens a page; at the end nothing has been asked of any other host, and no script has failed."""
    contexts, asked, failed = [], [], []

    def opened(path: str, **context: object) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **context}))
        contexts[-1].on("request", lambda request: asked.append(request.url))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda told: failed.append(told.text) if told.type == "error" else None)
        page.set_default_timeout(15_000)
        page.goto(site.base + path)
        page.get_by_role("heading", level=1).wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    host = site.base.removeprefix("http://")
    elsewhere = [url for url in asked if not re.match(rf"(https?|wss?)://{re.escape(host)}/|data:|blob:", url)]
    assert not elsewhere
    assert not [text for text in failed if "404" not in text]  # the page that says that there is no such group
