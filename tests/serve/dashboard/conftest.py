"""The real server over generated tables, opened in a real Chromium."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from checkpoints.generation import claimed
from checkpoints.manifest import Basis
from rebalance_model.observe.policy import Policy
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import NOW, archive, east, fleet, gaps, shop, storm
from tests.support.asked import Asked
from tests.support.served import served
from tests.support.tables import append, make_tables

_LISTS = {"*@orders-1": ["Orders@broker-a:0"], "*@orders-2": ["Orders@broker-a:1", "Orders@broker-a:2"]}
_ROOMS = {"consumeridcs": ["room1"], "broker_deploy_in": "^(broker)", "consumer_deploy_in": "^([0-9]+)"}
STATED = Policy(
    group=({"pattern": "orders-*", "allocate_strategy": "AVG", "message_queue_list": _LISTS, **_ROOMS},)
)  # fmt: skip
"""The policy of the job: it states what every strategy needs."""


class Site(NamedTuple):
    """A dashboard that is served."""

    base: str
    tables: Path
    now: int
    """The present time of the tables and of the server, whose clock stands still: otherwise the pages of a slow test
    run would show that nothing has been heard for minutes; epoch milliseconds."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Iterator[ReadModel]:
    """The tables of a shop and of a group whose queue was unassigned for a time, at `NOW`."""
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    append(folder, [row for group in [*shop(NOW), gaps(NOW)] for row in group.taken()])
    with Asked(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory, until_group_ends) -> Site:
    """The dashboard; it ends with the group, because it follows its tables as long as it runs."""
    return until_group_ends.once("site", lambda: _served(tmp_path_factory.mktemp("dashboard")))


@contextmanager
def _served(root: Path) -> Iterator[Site]:
    now = time.time_ns() // 1_000_000
    basis = Basis(source="test", partitions=1, state_partitions=1, code_version="0", policy=STATED)
    with claimed(root / "checkpoints", root / "tables", basis):
        groups = [*shop(now), fleet(now), *storm(now), east(now)]
        append(root / "tables", [row for group in groups for row in group.taken()])
    archive(root / "tables", now)
    limits = {"WEB__SQL_SECONDS": "3"}  # a test waits for it
    with served("dashboard", root, now=now, asks_again="fleet-group", **limits) as base:  # its speed is asserted
        yield Site(base, root / "tables", now)
    assert "Traceback" not in (root / "dashboard.log").read_text()


expect.set_options(timeout=40_000)  # beside other tests on two cores
SIZES = {1440: 900, 390: 844}
"""The height for each width: of a desktop screen and of a phone."""


class Profile(NamedTuple):
    """A browser profile, which keeps its cache, and its tabs that no test uses at present."""

    context: BrowserContext
    idle: list[Page]


@pytest.fixture(scope="module")
def profile(browser, until_group_ends) -> Callable[[str, str | None], Profile]:
    """Return a browser profile by language and time zone; a new one compiles all scripts again."""

    def made(locale: str, zone: str | None) -> Profile:
        return until_group_ends.once(f"profile {locale} {zone}", lambda: _profile(browser, locale, zone))

    return made


@contextmanager
def _profile(browser: Browser, locale: str, zone: str | None) -> Iterator[Profile]:
    with browser.new_context(locale=locale, timezone_id=zone) as context:
        yield Profile(context, [])


@pytest.fixture
def open_page(site, profile):
    """Return a function that opens a page; at the end no other host was requested, and no script has failed.

    It opens in a tab that another test has left: a new tab starts a process and compiles all scripts, for more than
    twice the processor time of the page itself.
    """
    asked, failed = [], []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "websocket": lambda socket: asked.append(socket.url),
        "pageerror": lambda error: failed.append(str(error)),
        "console": lambda message: failed.append(message.text) if message.type == "error" else None,
    }
    used = []

    def opened(
        path: str, width: int = 1440, scheme: str = "light", locale: str = "en-US", zone: str | None = None
    ) -> Page:
        context, idle = profile(locale, zone)
        page = idle.pop() if idle else context.new_page()
        used.append((page, idle))
        for event, listener in listeners.items():
            page.on(event, listener)
        page.set_default_timeout(40_000)
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        page.emulate_media(color_scheme=scheme)
        page.mouse.move(0, 0)
        page.goto(site.base + path)
        page.locator("h1:not(.outline *)").first.wait_for()
        return page

    yield opened
    for page, idle in used:
        page.goto(f"{site.base}/healthz")  # it follows the tables no longer; no page of another site: a process less
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        idle.append(page)
    host = site.base.removeprefix("http://")
    assert asked
    assert not [url for url in asked if not re.match(rf"(https?|wss?)://{re.escape(host)}/|data:|blob:", url)]
    assert not [text for text in failed if "responded with a status of 40" not in text]  # no such page
