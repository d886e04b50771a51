"""The page of what-if: every strategy, what moves, warnings, and a rolling restart."""

import re

import pytest
from playwright.sync_api import expect

PATH = "/group/orders-group/what-if"


def strategies(page):
    return page.get_by_role("group", name="Strategies for Orders, table").get_by_role("row")


_STRATEGIES = {
    "AVG": ["2", "0", "2.3 s", "14", "3"],
    "AVG_BY_CIRCLE": ["2", "0", "2.3 s", "14", "3"],
    "CONSISTENT_HASH": ["2", "0", "2.3 s", "14", "3"],
    "CONFIG": ["4", "3", "2.3 s", "7", "1 to 2; 3 unassigned"],
    "MACHINE_ROOM": ["6", "6", "2.3 s", "0", "0; 2 idle; 6 unassigned"],
    "MACHINE_ROOM_NEARBY": ["2", "0", "2.3 s", "14", "3"],
}
_OTHERS = [pytest.param(one, marks=pytest.mark.prove) for one in _STRATEGIES if one not in {"AVG", "CONFIG"}]


def test_each_strategy_has_its_moves_and_shares(open_page):
    page = open_page(PATH)

    for strategy, cells in _STRATEGIES.items():
        named = page.get_by_role("rowheader", name=re.compile(rf"^{strategy}( \(current\))?$"))
        expect(strategies(page).filter(has=named).get_by_role("cell")).to_have_text(cells)


@pytest.mark.parametrize("strategy", ["AVG", "CONFIG", *_OTHERS])
def test_the_moves_of_a_strategy_are_listed(open_page, strategy):
    page = open_page(f"{PATH}?strategy={strategy}")

    expect(page.get_by_role("heading", name=f"Orders by client, under {strategy}")).to_be_visible()
    page.locator("summary").click()
    moved = page.get_by_role("group", name="Queues of Orders that move, table").get_by_role("rowheader")
    expect(moved).to_have_count(int(_STRATEGIES[strategy][0]))


def test_what_a_strategy_lacks_and_what_is_not_known_are_sentences(open_page):
    page = open_page("/group/mystery-group/what-if?join=1&strategy=CONFIG")

    sentence = "not possible: CONFIG needs message_queue_list: state it in the policy"
    expect(page.get_by_role("group", name="Strategies for Mystery, table")).to_contain_text(sentence)
    expect(page.locator(".note").filter(has_text="The state of the group is not well known")).to_be_visible()
    expect(page.get_by_text("No queue moved in the last 7 days: pauses and duplicates are unknown.")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1440, "light", marks=pytest.mark.prove), (390, "dark")])
def test_a_rolling_restart_is_planned_by_keyboard_alone(open_page, width, scheme):
    page = open_page(f"{PATH}?leave=orders-1", width=width, scheme=scheme)
    expect(page.get_by_role("checkbox", name="10.0.0.5@orders-1")).to_be_checked()  # the end of its id is enough
    page.get_by_role("link", name="Plan a restart of 2 members that moves least").focus()
    page.keyboard.press("Enter")

    page.wait_for_url(re.compile("restart=true"))
    region = page.get_by_role("region", name="Rolling restart")
    expect(region).to_contain_text(
        "12 moves of queues if each member is back before the next one stops, in any order: "
    )
    expect(region.get_by_role("rowheader")).to_have_text(["1. 10.0.0.5@orders-1", "2. 10.0.0.5@orders-2"])
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_group_without_members_has_no_restart(open_page):
    page = open_page("/group/mystery-group/what-if?join=1&restart=true")

    expect(page.get_by_role("region", name="Rolling restart")).to_contain_text(
        "mystery-group has no members: there is nothing"
    )
