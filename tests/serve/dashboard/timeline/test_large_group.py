"""A large group: its problems first, folds, the overview, and a phone."""

import re

import pytest
from playwright.sync_api import expect

PATH = "/group/storm-group"


def folds(page):
    return page.get_by_role("region", name="Ownership").locator("button[aria-expanded]")


def test_problems_come_first_with_an_overview_that_leads_to_their_lanes(open_page):
    page = open_page(PATH)

    region = page.get_by_role("region", name="Ownership")
    expect(region).to_contain_text("58 of 120 queues have no problem; 9 changed owner in this period.")
    rows = region.get_by_role("list", name="Problems by reason").get_by_role("listitem")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("60 queues: BROKER_UNREACHABLE")
    expect(rows.first).to_contain_text("broker broker-b")
    expect(folds(page)).to_have_count(3)
    expect(folds(page).first).to_have_accessible_name("BAD BROKER_UNREACHABLE 60 queues, lag 180")
    counted = "60 queues, 2 with a problem, 1 unassigned, 9 moved, lag 180"
    expect(folds(page).nth(1)).to_have_accessible_name(f"BAD broker-a {counted}")
    expect(region.get_by_role("img", name=re.compile("Overview of all 120 lanes: 62 with a problem"))).to_be_visible()
    check_overview(page)


def check_overview(page) -> None:
    """It shows the dead broker, and a click in it leads to the lanes there."""
    overview = page.locator(".lanes-overview")
    await_colour(page, ".lanes-overview", 0.98, 0.9, "--bad")  # broker-b, now
    await_colour(page, ".lanes-overview", 0.5, 0.9, "--same")  # and before
    await_colour(page, ".lanes-overview", 0.98, 0.23, "--moved")  # the queues of the client that died
    box = overview.bounding_box()
    overview.click(position={"x": box["width"] * 0.9, "y": box["height"] * 0.9})
    expect(folds(page).nth(2)).to_have_attribute("aria-expanded", "true")
    assert page.locator(".lanes-scroll").evaluate("e => e.scrollTop") > 200


def test_the_way_to_fold_is_in_the_address(open_page, site):
    page = open_page(PATH)
    page.get_by_role("combobox", name="Fold lanes").select_option("client")

    expect(folds(page)).to_have_count(16)  # 14 owners, no owner, and the reason of most problems
    page.wait_for_url(re.compile("fold=client"))
    again = open_page(page.url.removeprefix(site.base))
    expect(again.get_by_role("combobox", name="Fold lanes")).to_have_value("client")
    expect(folds(again)).to_have_count(16)
    again.get_by_role("combobox", name="Fold lanes").select_option("none")
    expect(folds(again)).to_have_count(0)


def test_folds_open_by_keyboard_alone(open_page):
    page = open_page(PATH)
    page.get_by_role("group", name=re.compile("Ownership of 120 queues")).focus()
    page.keyboard.press("Tab")
    expect(folds(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(folds(page).nth(1)).to_be_focused()
    height = scroll_height(page)

    page.keyboard.press("Enter")

    expect(folds(page).nth(1)).to_have_attribute("aria-expanded", "true")
    assert scroll_height(page) > height + 60 * 20
    expect(folds(page).nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(folds(page).last).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Time that the page shows")).to_be_focused()


def scroll_height(page) -> int:
    return page.locator(".lanes-rows").evaluate("e => e.clientHeight")


def await_colour(page, selector: str, x: float, y: float, name: str, height: int = 1) -> None:
    """Wait until a canvas has a colour of the style at a share of its width and height, or up to `height` pixels below;
    each update draws it again.
    """
    page.wait_for_function(
        """([selector, x, y, name, height]) => {
            const canvas = document.querySelector(selector);  // an update may replace it
            const probe = new OffscreenCanvas(1, 1).getContext('2d');
            probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            probe.fillRect(0, 0, 1, 1);
            const wanted = probe.getImageData(0, 0, 1, 1).data.join();
            const shown = canvas.getContext('2d').getImageData(canvas.width * x, canvas.height * y, 1, height).data;
            return Array.from({ length: height }, (_, i) => shown.slice(4 * i, 4 * i + 4).join()).includes(wanted);
        }""",
        arg=[selector, x, y, name, height],
    )


def test_lanes_of_a_found_client_are_highlighted(open_page):
    page = open_page(f"{PATH}?fold=none&find=10.2.0.9@709")
    page.wait_for_function("document.querySelector('.lanes-rows').clientHeight > 100")

    await_colour(page, ".lanes-body", 0.6, 0.0, "--accent", height=100)  # the lanes stand one below the other


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.prove)])
def test_on_a_phone_nothing_is_clipped_and_ok_queues_are_one_line(open_page, scheme):
    page = open_page("/group/orders-group", width=390, scheme=scheme)

    queues = page.get_by_role("region", name="Queues", exact=True)
    expect(queues.get_by_role("rowheader").locator("visible=true")).to_have_text(["Orders@broker-a:0"])
    expect(folds(page)).to_have_text(re.compile("OK queues 5 queues, 2 moved, lag 15"))
    show = queues.get_by_role("button", name="Show the 5 queues without a problem")
    show.click()
    expect(show).to_have_count(0)
    expect(queues.get_by_role("rowheader").locator("visible=true")).to_have_count(6)
    for path in (PATH, f"{PATH}?fold=none"):
        page.goto(page.url.split("/group/")[0] + path)
        page.get_by_role("list", name="Problems by reason").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        cut = "es => es.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
        assert page.locator(".reasons li, .fold-head, .legend li, tbody tr").evaluate_all(cut) == []


def test_all_queues_of_a_small_group_are_listed_on_a_wide_screen(open_page):
    page = open_page("/group/orders-group")

    expect(
        page.get_by_role("region", name="Queues", exact=True).get_by_role("rowheader").locator("visible=true")
    ).to_have_count(6)
    expect(folds(page)).to_have_count(0)
    expect(page.locator(".lanes-overview")).to_have_count(0)
