"""Chromium, without a window."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium until the end of the block; until then this process can run no other event loop."""
    with sync_playwright() as playwright:
        # Started as root, Chromium has no sandbox; what it loads here is ours.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
