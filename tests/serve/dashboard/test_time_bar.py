"""The bar of time and period at the top of each page of a state."""

import re

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize(
    ("path", "period"),
    [
        ("/", "span=6h"), ("/clients", None), ("/group/orders-group", "span=6h"),
        *(
            pytest.param(path, period, marks=pytest.mark.prove) for path, period in (
                ("/incidents", None), ("/client/10.0.0.5@orders-1", "span=6h"),
                ("/group/orders-group/queue/Orders/broker-a/0", "span=6h"),
            )
        ),
    ],
)  # fmt: skip
def test_time_and_period_are_in_one_bar_above_everything_that_stays(open_page, path, period):
    page = open_page(path)
    bar = page.get_by_role("group", name="Time and period")
    expect(bar.get_by_label("Time", exact=True)).to_be_visible()
    assert bar.bounding_box()["y"] < page.get_by_role("heading", level=1).bounding_box()["y"]
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(bar).to_be_in_viewport(ratio=1)
    if period:
        bar.get_by_role("button", name="6 h", exact=True).evaluate("button => { button.disabled = false }")
        bar.get_by_role("button", name="6 h", exact=True).click()
        page.wait_for_url(re.compile(period))
