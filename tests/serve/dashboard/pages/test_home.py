"""Home for many groups: order, filters, the last hour, links to what is counted, and what a client owned earlier."""

import re

import pytest
from playwright.sync_api import expect

from streaming.base.errors import UserError
from streaming.queries.results import Group, OpenIncidents, TelemetryCoverage
from streaming.serve.dashboard.charts.trends import strip_of
from streaming.serve.dashboard.pages.home import ORDERS, GroupFilters, checked, listed
from tests.serve.dashboard.tables import CLIENTS


def group_of(name: str, health: str = "OK", lag: int | None = 0, critical: int = 0, cluster: str = "x") -> Group:
    return Group(
        cluster=cluster, group=name, time=0, health=health, health_reason="", orderly=None, strategy=None,
        consume_type="", message_model="", members=(f"{name}@1",), subscriptions=(), queues=1, unowned=None, lag=lag,
        lag_is_at_least=False, lag_unknown=0, lag_stale=0, lag_age_ms=None, last_rebalance=None,
        coverage=TelemetryCoverage(), incidents=OpenIncidents(critical=critical),
    )  # fmt: skip


def names(groups: list[Group], **filters: str) -> list[str]:
    return [group.group for group in listed(groups, checked(GroupFilters(**filters)))]


def test_the_worst_come_first_and_unknown_before_ok():
    groups = [
        group_of("a"),
        group_of("b", "UNKNOWN"),
        group_of("c", "WARN"),
        group_of("d", "BAD"),
        group_of("e", "BAD", critical=2),
    ]

    assert names(groups) == ["e", "d", "c", "b", "a"]
    assert names(groups, sort="-health") == ["a", "b", "c", "d", "e"]


def test_an_unknown_lag_is_last_in_both_orders():
    groups = [group_of("a", lag=None), group_of("b", lag=0), group_of("c", lag=7)]

    assert names(groups, sort="lag") == ["c", "b", "a"]
    assert names(groups, sort="-lag") == ["b", "c", "a"]


def test_filters_are_combined():
    groups = [
        group_of("a", "BAD"),
        group_of("b", "BAD", cluster="y"),
        group_of("c", "WARN", cluster="y"),
        group_of("d", cluster="y"),
    ]

    assert names(groups, health="not-ok", cluster="y") == ["b", "c"]
    assert names(groups, health="BAD", cluster="y") == ["b"]
    assert names(groups, find=" D@1 ") == ["d"]
    assert [g.group for g in listed(groups, GroupFilters(find="zz"), {("y", "c")})] == ["c"]


@pytest.mark.parametrize(
    "filters", [GroupFilters(health="SICK"), GroupFilters(sort="colour"), GroupFilters(sort="--lag")]
)
def test_an_unknown_filter_is_one_sentence(filters):
    with pytest.raises(UserError, match="Invalid"):
        checked(filters)


@pytest.mark.parametrize("column", ORDERS)
def test_a_heading_sorts_and_then_reverses(column):
    once = GroupFilters(sort="queues" if column != "queues" else "").by(column)
    twice = once.by(column)

    assert (once.column, twice.column) == (column, column)
    assert once.descending != twice.descending


def test_a_strip_is_described_in_words_and_differs_in_shape():
    strip = strip_of(["OK"] * 24 + ["BAD"] * 5 + ["UNKNOWN"], 3_600_000)

    assert strip.words == "OK for 48 min, then BAD for 10 min, then UNKNOWN for 2 min"
    assert [(bar.health, bar.x, bar.width) for bar in strip.bars] == [
        ("OK", 0, 96),
        ("BAD", 96, 20),
        ("UNKNOWN", 116, 4),
    ]
    assert strip_of(["OK", "BAD"] * 15, 3_600_000).words == "29 changes: BAD for 30 min, OK for 30 min in total"


def groups_of(page):
    return page.get_by_role("region", name="Groups by health")


def names_on(page) -> list[str]:
    return groups_of(page).locator("tbody th a").all_inner_texts()


def test_headings_and_filters_are_in_the_address(open_page):
    page = open_page("/")
    groups = groups_of(page)
    expect(groups.get_by_role("columnheader", name="Health")).to_have_attribute("aria-sort", "descending")

    groups.get_by_role("link", name="Queues", exact=True).click()
    page.wait_for_url(re.compile(r"sort=queues#groups$"))
    expect(groups.locator("tbody th a").first).to_have_text("fleet-group")
    groups.get_by_role("link", name="Queues", exact=True).click()
    page.wait_for_url(re.compile(r"sort=-queues#groups$"))
    expect(groups.get_by_role("columnheader", name="Queues")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("combobox", name="Health").select_option("Not OK")
    page.wait_for_url(re.compile(r"sort=-queues&health=not-ok"))
    expect(groups.get_by_role("rowheader").filter(has_text="audit-group")).to_have_count(0)
    expect(groups.get_by_role("rowheader").filter(has_text="orders-group")).to_have_count(1)  # the page is there
    assert {"orders-group", "mystery-group"} <= set(names_on(page))
    page.get_by_role("searchbox").fill("mystery")
    page.wait_for_url(re.compile(r"find=mystery&health=not-ok&sort=-queues"))
    expect(groups.locator("tbody th a")).to_have_text(["mystery-group"])
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("mystery")
    expect(groups.locator("tbody th a")).to_have_text(["mystery-group"])


def test_the_last_hour_is_a_picture_with_words(site, open_page):
    page = open_page(f"/?at={site.now}")  # without a time its hour ends when this test runs
    rows = groups_of(page).get_by_role("row")

    known = rows.filter(has_text="east-group").locator(".strip")
    expect(known).to_have_attribute("aria-label", "OK for 30 min, then BAD for 10 min, then OK for 20 min")
    unknown = rows.filter(has_text="mystery-group").locator(".strip")
    expect(unknown).to_have_attribute("aria-label", "UNKNOWN for 1 h")
    assert "url" in unknown.locator("rect").evaluate("e => getComputedStyle(e).fill")
    page.get_by_role("combobox", name="Cluster").select_option("east")
    page.wait_for_url(re.compile("cluster=east"))
    expect(groups_of(page).locator("tbody th a")).to_have_text(["east-group"])


def test_counts_lead_to_what_they_count(open_page, site):
    page = open_page("/")

    def follow(name: str | re.Pattern[str], column: str | None = None) -> None:
        page.goto(site.base)
        region = groups_of(page).get_by_role("row").filter(has_text="orders-group") if column else page
        place = region.locator(f'td[data-label="{column}"] a') if column else page.get_by_role("link", name=name)
        place.click()

    follow(re.compile("groups? (is|are) BAD"))
    page.wait_for_url(re.compile("health=BAD"))
    expect(groups_of(page).locator(".status.BAD").first).to_be_visible()
    expect(groups_of(page).locator("td .status.OK")).to_have_count(0)
    follow(re.compile("open incidents? (is|are) critical"))
    page.wait_for_url(re.compile("/incidents.*state=open&severity=critical"))
    expect(page.get_by_role("link", name="Orders:0 is stuck").first).to_be_visible()
    follow("", "Members")
    page.wait_for_url(re.compile("/clients.*group=orders-group&cluster=prod"))
    expect(page.get_by_role("link", name=CLIENTS[0])).to_be_visible()
    follow("", "Incidents")
    page.wait_for_url(re.compile("/incidents.*cluster=prod&group=orders-group&state=open"))
    expect(page.get_by_role("group", name="Incidents, table").get_by_role("row")).to_have_count(2)
    follow("", "Queues")
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_in_viewport()


def test_what_a_client_owned_earlier_is_found(open_page):
    page = open_page("/")
    page.get_by_role("searchbox").fill("orders-3")

    expect(groups_of(page).locator("tbody th a")).to_have_text(["orders-group"])
    queues = page.get_by_role("region", name="Queues found, and who owned them in the period")
    expect(queues.get_by_role("row").filter(has_text=CLIENTS[2])).to_have_count(2)
    queues.get_by_role("link", name="orders-group").first.click()
    expect(page.get_by_role("searchbox")).to_have_value("orders-3")
    rows = page.get_by_role("region", name="Queues").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="Orders@broker-a:4")).to_contain_text("also orders-3 in this period")


@pytest.mark.parametrize("width", [390, 1440])
def test_found_queues_and_filters_fit_the_screen(open_page, width):
    page = open_page("/?find=orders&health=not-ok", width=width)
    page.get_by_role("region", name="Queues found").wait_for()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    focused = page.locator("thead a").first.evaluate("e => (e.focus(), document.activeElement === e)")
    assert focused is (width == 1440)  # headings that cannot be seen get no focus; the list of orders remains
    page.get_by_role("combobox", name="Order").select_option("Largest lag")
    page.wait_for_url(re.compile("sort=lag"))
