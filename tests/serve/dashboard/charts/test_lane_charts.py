"""Lag and waiting time under the lanes of a group: one axis of time, one cursor."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect


@pytest.fixture
def page(open_page):
    shown = open_page("/group/orders-group?span=1h")
    expect(shown.locator(".lag-chart svg")).to_have_count(2)
    return shown


def times(page):
    """The time that each chart says; they appear one after the other."""
    tips = page.locator(".chart-tip")
    expect(tips.filter(has_text=re.compile(r"\d\d:\d\d:\d\d"), visible=True)).to_have_count(2)
    return {re.search(r"\d\d:\d\d:\d\d", text)[0] for text in tips.all_inner_texts() if text}


def test_a_pointer_over_the_lanes_says_lag_and_waiting_time_there(page):
    body = page.locator(".lanes-body").bounding_box()
    chart = page.get_by_role("img", name="Lag by topic").bounding_box()
    x = chart["x"] + 0.7 * chart["width"]
    page.mouse.move(x, body["y"] + 8)

    assert len(times(page)) == 1
    cursor = page.locator(".lanes-cursor").bounding_box()
    assert cursor["x"] == pytest.approx(x, abs=1.5)
    page.mouse.move(x, body["y"] - 200)
    expect(page.locator(".lanes-cursor")).to_have_count(0)


def test_a_pointer_over_a_chart_is_over_the_lanes_and_a_click_selects(page):
    chart = page.get_by_role("img", name="Waiting time by topic")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    x, y = box["x"] + 0.7 * box["width"], box["y"] + 60
    page.mouse.move(x, y)

    said = times(page)
    assert len(said) == 1
    assert page.locator(".lanes-cursor").bounding_box()["x"] == pytest.approx(x, abs=1.5)
    page.mouse.click(x, y)
    minutes = "|".join(_near(said.pop()[:8]))  # a pixel is some seconds
    expect(page.get_by_role("group", name="Time and period")).to_contain_text(re.compile(f"As of .* ({minutes})"))


def _near(clock: str) -> set[str]:
    """Return the minutes of a time and of the seconds around it."""
    time = datetime.strptime(clock, "%H:%M:%S").replace(tzinfo=UTC)
    return {f"{time + timedelta(seconds=seconds):%H:%M}" for seconds in (-5, 0, 5)}


def test_charts_begin_and_end_where_the_lanes_do_at_any_width(page):
    ends = "element => { const box = element.getBoundingClientRect(); return [box.left, box.right]; }"
    fills = """([chart, width]) => innerWidth === width &&
        chart.querySelector("svg").width.baseVal.value === Math.round(chart.getBoundingClientRect().width)"""
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name in ("Lag by topic", "Waiting time by topic"):
            chart = page.get_by_role("img", name=name)
            page.wait_for_function(fills, arg=[chart.element_handle(), width])
            lanes = page.locator(".lanes-range").evaluate(ends)
            begin, end = chart.evaluate(ends)
            assert begin == pytest.approx(lanes[0] + 8, abs=3)  # the slider is as wide as its knob beyond the lanes
            assert end == pytest.approx(lanes[1] - 8, abs=12)
