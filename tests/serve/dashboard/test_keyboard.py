"""Each page with the keyboard alone, typed as people type: find boxes, forms, tables and the lanes' slider."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.serve.dashboard.tables import CLIENTS


def to(page: Page, focused: str) -> None:
    """Press Tab until the element that a selector names has the focus, which can be seen."""
    page.locator(focused).first.wait_for()
    for _ in range(90):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", focused):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    pytest.fail(f"{focused} can't be reached with the keyboard")


@pytest.mark.parametrize(
    ("path", "kept", "other", "text"),
    [
        ("/incidents", "Orders:0 is stuck: the listener does not return", "Storm:7 has 2 owners", "Orders@broker-a"),
        ("/clients?sort=client_id", CLIENTS[1], "10.0.0.9@audit-1", "orders-2"),
    ],
)
def test_a_find_box_filters_as_one_types(open_page, path, kept, other, text):
    page = open_page(path)
    rows = page.get_by_role("table").first.get_by_role("link")
    expect(rows.filter(has_text=kept).first).to_be_visible()
    to(page, "input[type=search]")
    page.keyboard.type(text)
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get("find") == [text])  # all that was typed
    expect(rows.filter(has_text=other)).to_have_count(0)
    expect(rows.filter(has_text=kept).first).to_be_visible()
    expect(page.get_by_role("searchbox")).to_be_focused()  # the page was not loaded again
    page.get_by_role("combobox").first.wait_for()
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value(text)
    expect(rows.filter(has_text=other)).to_have_count(0)


def test_an_incident_leads_to_its_client_queue_and_forms(open_page):
    page = open_page("/incidents?find=stuck0001")
    client = "td a[href^='/client/'][href*='orders-1']"
    to(page, client)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(CLIENTS[0])

    page.goto(page.url.partition("/client/")[0] + "/incident/stuck0001")
    to(page, "#acknowledge > summary")
    page.keyboard.press("Enter")
    to(page, "#acknowledge-form input[name=by]")
    page.keyboard.type("ann")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")  # and away again: nothing was sent
    expect(page.locator("#acknowledge-form")).to_be_hidden()
    to(page, "a[href*='/queue/Orders/broker-a/0']")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Orders@broker-a:0")

    to(page, "[data-parameter=span]:not([aria-pressed=true], [disabled])")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("span="))
    to(page, "input[data-pick-time]")
    page.keyboard.press("Control+a")
    page.keyboard.type("20m")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("at=2"))


def test_the_slider_of_the_lanes_moves_by_arrow_keys(open_page):
    page = open_page("/group/orders-group")
    to(page, ".lanes-range")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("at=2"))
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/group/orders-group\?(?!.*at=)"))
