"""Pages over tables that are behind, and at a time after the last telemetry: nothing there is green."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from streaming.base.times import written
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.served import served
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
CLIENT = "10.0.0.9@audit-1"
QUEUE = "/group/audit-group/queue/Audit/broker-a/0"
BEHIND = 85_000
"""How far the clock of the server is beyond the last telemetry; milliseconds."""
_LISTS = ("/incidents", "/clients", f"/client/{CLIENT}")
LATER = NOW + 431_373_000


@pytest.fixture(scope="module")
def behind(tmp_path_factory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("behind")
    group = Group("audit-group", "Audit", (CLIENT,))
    for time in (NOW - 20 * MINUTE, NOW):
        group.state(time)
        group.queue(time, 0, CLIENT, interval_ms=10_000)
    group.owner(NOW - 20 * MINUTE, 0, CLIENT)
    append(make_tables(root / "tables"), group.taken())
    with served("dashboard", root, now=NOW + BEHIND, asks_again="none") as base:
        yield base


@pytest.fixture(scope="module")
def page(browser) -> Iterator[Page]:
    """A tab for all of them: another one would start a process and compile all scripts."""
    with browser.new_context(locale="en-US", viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(40_000)
        yield page


@pytest.fixture
def opened(behind, page) -> Callable[[str], Page]:
    def visit(path: str) -> Page:
        page.goto(behind + path)
        page.get_by_role("heading", level=1).wait_for()
        return page

    return visit


def is_hatched(page: Page, selector: str) -> bool:
    return "gradient" in page.locator(selector).first.evaluate("(node) => getComputedStyle(node).backgroundImage")


def green(page: Page) -> list[str]:
    """Return the text of whatever is shown in the colour of OK."""
    return page.evaluate(
        """() => {
            const root = getComputedStyle(document.documentElement), probe = document.createElement("i");
            probe.style.color = root.getPropertyValue("--ok");
            document.body.append(probe);
            const ok = getComputedStyle(probe).color;
            probe.remove();
            return [...document.querySelectorAll(".status, .status *")]
                .filter((node) => getComputedStyle(node).color === ok).map((node) => node.textContent);
        }"""
    )


def test_on_a_home_page_that_is_behind_a_group_is_unknown_and_was_ok(opened):
    page = opened("/")
    expect(page.get_by_text("for 1 min 25 s: what is shown is stale.")).to_be_visible()
    expect(page.locator(".status-bar a.status.UNKNOWN")).to_have_text("1 UNKNOWN")
    expect(page.get_by_text("last known health: OK")).to_be_visible()
    assert not green(page)


@pytest.mark.parametrize(("path", "status"), [("/group/audit-group", "UNKNOWN"), (QUEUE, "OK")])
def test_a_group_that_is_behind_is_unknown_and_its_queue_stale(opened, path, status):
    page = opened(path)
    expect(page.get_by_text("for 1 min 25 s: what is shown is stale.")).to_be_visible()
    expect(page.locator(f".title .status.{status}").first).to_be_visible()
    assert status == "UNKNOWN" or is_hatched(page, ".title .status.OK")
    assert not green(page)


@pytest.mark.parametrize(
    "path",
    ["/", "/group/audit-group", QUEUE, *(pytest.param(path, marks=pytest.mark.prove) for path in _LISTS)],
)
def test_at_a_time_after_the_last_telemetry_nothing_is_known(opened, path):
    page = opened(f"{path}?at={written(LATER)}")
    expect(page.get_by_text("That is 4 d 23 h after the last telemetry")).to_be_visible()
    assert not re.search(r"-\d+ (s|min|h|d)\b", page.inner_text("body"))
    assert not re.search(r"\dT\d\d:", page.inner_text("body")), "a time as no other one of the page"
    assert not page.locator(".status.OK").count()
    assert not green(page)


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Iterator[str]:
    """The pages a day after the last telemetry, by which a queue had no owner."""
    root = tmp_path_factory.mktemp("ended")
    group = Group("audit-group", "Audit", (CLIENT,))
    group.state(NOW - 20 * MINUTE)
    group.incident(NOW - 5 * MINUTE, "open0001", "OPENED", NOW - 5 * MINUTE, code="QUEUE_STALLED")
    group.queue(NOW - 10_000, 0, None, lag=7, status="BAD", status_reason="QUEUE_STALLED")
    group.state(NOW, "BAD", "QUEUE_STALLED")
    append(make_tables(root / "tables"), group.taken())
    with served("dashboard", root, now=NOW + 86_400_000, asks_again="none") as base:
        yield base


def test_an_incident_open_at_the_end_has_its_last_owner_and_an_age(ended, page):
    page.goto(f"{ended}/incident/open0001")

    expect(page.get_by_text(re.compile("As of .*, the last telemetry, 1 d ago"))).to_be_visible()
    expect(page.get_by_text(re.compile("Observed .*, 10 s ago"))).to_be_visible()
    expect(page.locator("dt", has_text="Current owner").locator("+ dd")).to_have_text("unassigned")
