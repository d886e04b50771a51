"""Typed text, key by key, stays while the page is rendered again."""

import re

import pytest
from playwright.sync_api import expect

from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.tables import append

DELAYS = [300, *(pytest.param(ms, marks=pytest.mark.prove) for ms in (30, 900))]
"""Between two keys, in milliseconds: below and above the time after which a find box asks the server."""


@pytest.mark.parametrize("delay", DELAYS)
def test_a_group_is_found_while_its_name_is_typed(open_page, delay):
    page = open_page("/")
    box = page.get_by_role("searchbox")
    box.press_sequentially("audit", delay=delay)

    groups = page.get_by_role("region", name="Groups by health")
    expect(groups.locator("tbody th a")).to_have_text(["audit-group"])
    expect(box).to_have_value("audit")
    expect(box).to_be_focused()
    page.wait_for_url(re.compile("find=audit"))


@pytest.mark.parametrize("delay", DELAYS)
def test_a_queue_is_found_while_its_name_is_typed(open_page, delay):
    page = open_page("/group/orders-group")
    box = page.get_by_role("searchbox", name="Find queues or clients")
    box.press_sequentially("a:4", delay=delay)

    queues = page.get_by_role("region", name="Queues").get_by_role("row")
    expect(queues).to_have_count(2)
    expect(queues.last).to_contain_text("Orders@broker-a:4")
    expect(box).to_have_value("a:4")
    page.wait_for_url(re.compile("find=a"))


def test_a_text_that_the_address_has_can_be_extended(open_page):
    page = open_page("/?find=aud")
    box = page.get_by_role("searchbox")
    expect(box).to_have_value("aud")
    box.press("End")
    box.press_sequentially("it", delay=300)

    page.wait_for_url(re.compile("find=audit"))
    expect(box).to_have_value("audit")


def test_new_rows_keep_what_is_typed_in_a_filter(open_page, site):
    page = open_page("/incidents")
    box = page.get_by_role("searchbox")
    box.press_sequentially("aud")
    group = Group("typed-group", "Typed", ("10.0.0.3@typed-1",))
    group.incident(site.now - MINUTE, "typed", "OPENED", site.now - MINUTE)
    append(site.tables, group.taken())
    # Its group is now one to choose: the filters were rendered again.
    expect(page.get_by_role("combobox", name="Group").locator("option[value=typed-group]")).to_have_count(1)

    expect(box).to_be_focused()
    page.keyboard.type("it-group")
    expect(box).to_have_value("audit-group")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("find=audit-group"))
