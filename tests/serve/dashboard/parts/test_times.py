"""Times on the pages: in the browser's zone or UTC, and chosen by the user."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from streaming.base.times import instant_ms, written
from tests.serve.dashboard.tables import DIED, MINUTE, STUCK

KOLKATA = ZoneInfo("Asia/Kolkata")


@pytest.fixture
def page_there(open_page):
    """Return a function that opens a page at UTC+5:30; what a test has chosen is forgotten after it."""
    pages = []

    def opened(path):
        pages.append(open_page(path, zone=KOLKATA.key))
        return pages[-1]

    yield opened
    pages[0].evaluate("localStorage.clear()")
    pages[0].context.clear_cookies()


def written_in(time_ms, zone):
    when = datetime.fromtimestamp(time_ms / 1000, zone)
    return f"{when:%Y-%m-%d %H:%M:%S}"


def test_times_are_the_browsers_until_utc_is_chosen(page_there, site):
    page = page_there(f"/group/orders-group?at={written(site.now - STUCK)}")
    when, slider = page.get_by_role("group", name="Time and period"), page.get_by_role("slider")
    expect(when).to_contain_text(f"As of {written_in(site.now - STUCK, KOLKATA)} UTC+5:30")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"UTC\+5:30$"))
    hour = datetime.fromtimestamp((site.now - STUCK) / 1000, KOLKATA)
    expect(page.get_by_role("img", name="Lag by topic")).to_contain_text(
        re.compile(f"{hour:%H}:|{hour - timedelta(hours=1):%H}:")
    )

    page.get_by_role("button", name="Times in UTC+5:30").click()

    expect(when).to_contain_text(f"As of {written_in(site.now - STUCK, UTC)} UTC ")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("UTC$"))
    expect(page_there("/").get_by_role("button", name="Times in UTC", exact=True)).to_be_visible()  # it is remembered


def test_a_time_of_the_browsers_zone_is_chosen_on_home_and_on_a_group(page_there, site):
    before = (site.now - DIED - MINUTE) // 1000 * 1000
    in_zone = datetime.fromtimestamp(before / 1000, KOLKATA)
    for path, said in (("/", "As of"), ("/group/orders-group", "As of")):
        page = page_there(path)
        picker = page.get_by_label("Time", exact=True)
        picker.press_sequentially(
            f"{in_zone:%Y-%m-%d %H:%M:%S}"
        )  # by a 24-hour clock, in a browser of American English
        picker.press("Tab")
        page.wait_for_url(re.compile("at="))
        assert instant_ms(re.search(r"at=([^&]+)", page.url)[1].replace("%3A", ":"), site.now) == before
        expect(page.get_by_text(re.compile(f"{said} {written_in(before, KOLKATA)}"))).to_be_visible()
        expect(picker).to_have_value(f"{in_zone:%Y-%m-%d %H:%M:%S}")


def test_periods_before_history_are_not_offered(page_there):
    page = page_there("/group/orders-group")
    longest = page.get_by_role("button", name="7 d", exact=True)
    expect(longest).to_be_disabled()
    expect(longest).to_have_attribute("title", re.compile("History begins 20"))
    expect(page.get_by_role("button", name="15 min")).to_be_enabled()


def test_a_time_ago_is_chosen_from_a_list_or_written(page_there, site):
    page = page_there("/")
    for choose in (
        lambda: page.get_by_role("combobox", name="Time ago").select_option("15 min ago"),
        lambda: page.get_by_label("Time", exact=True).fill("15m") or page.keyboard.press("Tab"),
        lambda: page.get_by_label("Time", exact=True).fill("15m ago") or page.keyboard.press("Tab"),
    ):
        page.goto(site.base)
        choose()
        page.wait_for_url(re.compile("at="))
        at = instant_ms(re.search(r"at=([^&]+)", page.url)[1].replace("%3A", ":"), 0)
        assert 0 <= page.evaluate("Date.now()") - at - 15 * MINUTE < MINUTE


def test_a_time_of_day_is_the_last_one_that_a_clock_showed(page_there):
    page = page_there("/")
    hour = datetime.fromtimestamp(page.evaluate("Date.now()") / 1000, KOLKATA) - timedelta(minutes=20)
    picker = page.get_by_label("Time", exact=True)
    picker.fill(f"{hour:%H:%M}")
    picker.press("Tab")

    page.wait_for_url(re.compile("at="))
    at = instant_ms(re.search(r"at=([^&]+)", page.url)[1].replace("%3A", ":"), 0)
    assert at == int(hour.replace(second=0, microsecond=0).timestamp() * 1000)


def test_a_time_that_cannot_be_shown_is_refused_where_it_is_written(page_there):
    page = page_there("/")
    picker = page.get_by_label("Time", exact=True)
    for typed, says in (("soon", "Invalid time. Use"), ("2020-01-01 00:00", "History begins")):
        picker.fill(typed)
        picker.press("Tab")
        assert says in picker.evaluate("field => field.validationMessage")
        assert "at=" not in page.url
