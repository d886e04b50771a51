"""What tests share: tables to ask, and one Chromium (a process has one Playwright at a time)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables to ask, never written to again; see `tests.streaming.asked`."""
    from tests.streaming.asked import everything, write  # noqa: PLC0415  folds a log

    tables = tmp_path_factory.mktemp("asked") / "tables"
    write(tables, everything())
    return tables


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Not for the whole session: while Playwright is there, nothing else of the process can run a loop."""
    with sync_playwright() as playwright:
        # Started as root, Chromium has no sandbox; what it loads here is ours.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
