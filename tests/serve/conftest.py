"""One Chromium for all tests of served pages (a process has one Playwright at a time)."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium; not for the whole session, see `chromium`."""
    with chromium() as browser:
        yield browser
