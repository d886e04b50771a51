"""One Chromium for all tests of served pages (a process has one Playwright at a time)."""

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import chromium


@pytest.fixture(scope="module")
def browser(until_group_ends) -> Browser:
    """Start Chromium once for each group of tests that need it; not for the whole session, see `chromium`."""
    return until_group_ends.once("browser", chromium)
