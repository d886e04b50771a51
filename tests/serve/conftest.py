"""One Chromium for all tests of served pages (a process has one Playwright at a time)."""

from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import chromium


@pytest.fixture(scope="session")
def browser(until_group_ends: ExitStack) -> Browser:
    """Start Chromium, for the tests that need it, which are one group; not for the whole session, see `chromium`."""
    return until_group_ends.enter_context(chromium())
