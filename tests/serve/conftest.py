"""One Chromium for all tests of served pages (a process has one Playwright at a time)."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium. Not for the whole session: while Playwright runs, the process can run no other event loop."""
    with sync_playwright() as playwright:
        # Started as root, Chromium has no sandbox; what it loads here is ours.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
