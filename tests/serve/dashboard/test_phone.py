"""On a phone the page of a group with a long history is short; `test_looks` has what holds for every page."""

from playwright.sync_api import expect

from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.tables import append


def test_a_group_with_a_long_history_is_short_and_all_of_it_can_be_shown(open_page, site):
    names = tuple(f"10.0.0.8@long-{n}" for n in range(1, 5))
    group, now = Group("long-group", "Long", names), site.now
    group.state(now - 50 * MINUTE)
    for queue_id in range(12):
        group.owner(now - 50 * MINUTE, queue_id, names[queue_id % 4])
        group.queue(now - MINUTE, queue_id, names[queue_id % 4], status="BAD" if queue_id < 3 else "OK")
    for number in range(12):
        at = now - (45 - 3 * number) * MINUTE
        group.rebalance(at - 5_000, at, f"long{number}", names[3], [(0, names[3], names[0])])
        group.incident(at, f"long{number}", "OPENED", at, number)
        group.incident(at + MINUTE, f"long{number}", "RESOLVED", at, number)
    group.state(now)
    append(site.tables, group.taken())
    home = open_page("/?find=long-group", width=390)
    home.get_by_role("link", name="long-group").first.wait_for()  # its rows are there
    page = open_page("/group/long-group", width=390)
    rebalances = page.get_by_role("region", name="Rebalances")
    rows = rebalances.locator("tbody tr")
    expect(rows).to_have_count(12)

    assert page.evaluate("document.documentElement.scrollHeight") < 5_500
    expect(rows.nth(2)).to_be_visible()
    expect(rows.nth(3)).to_be_hidden()
    rebalances.get_by_role("button", name="Show all 12").click()
    expect(rows.nth(11)).to_be_visible()
    expect(page.get_by_role("region", name="Incidents in this period").locator("tbody tr").nth(11)).to_be_hidden()
