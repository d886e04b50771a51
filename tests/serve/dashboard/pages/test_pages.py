"""Each page in a real browser, live and at an instant."""

import re
import time
from datetime import UTC, datetime
from html import unescape
from urllib.parse import quote

import httpx
from playwright.sync_api import expect

from rebalance_model.observe.events import DEADLINE
from streaming.base.times import instant_ms, written
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, STUCK, Group, polled
from tests.support.tables import append, append_rows
from tests.support.waiting import until


def row(page, region: str, text: str):
    return page.get_by_role("region", name=region).get_by_role("row").filter(has_text=text)


def test_home_shows_problems_first_and_unknown_is_not_green(open_page):
    page = open_page("/")

    names = (
        page.get_by_role("region", name="Groups by health")
        .get_by_role("rowheader")
        .get_by_role("link")
        .all_inner_texts()
    )
    names = [name for name in names if name != "acts-group"]  # the tests of the incident page add it
    assert names[:3] == ["storm-group", "orders-group", "mystery-group"]
    assert {"audit-group", "fleet-group"} <= set(names[3:])
    unknown = row(page, "Groups by health", "mystery-group")
    expect(unknown).to_contain_text("UNKNOWN")
    assert unknown.locator(".status.UNKNOWN b").evaluate("e => getComputedStyle(e).backgroundImage") != "none"
    assert unknown.locator(".status.OK").count() == 0
    expect(unknown.get_by_role("cell").nth(2)).to_have_text("unknown")  # its lag: never 0
    incidents = page.get_by_role("region", name="Open incidents")
    expect(incidents).to_contain_text("ORDERED_QUEUE_STUCK LISTENER_HUNG in orders-group")
    expect(incidents).to_contain_text("Take a thread dump of the owner.")


def test_a_group_is_found_by_a_part_of_its_name(open_page):
    page = open_page("/")

    page.get_by_role("searchbox", name="Find a group").fill("AUDIT")

    expect(row(page, "Groups by health", "orders-group")).to_have_count(0)
    expect(row(page, "Groups by health", "audit-group")).to_have_count(1)


def test_a_groups_page_shows_owners_members_rebalances_and_incidents(open_page):
    page = open_page("/group/orders-group")

    stuck = row(page, "Queues", "Orders@broker-a:0")
    expect(stuck).to_contain_text("BAD ORDERED_QUEUE_STUCK LISTENER_HUNG")
    expect(stuck).to_contain_text("orders-1")
    expect(stuck).to_contain_text("1 min 4 s")  # the age of the lock, now
    expect(row(page, "Queues", "Orders@broker-a:4")).to_contain_text("orders-1")
    first = row(page, "Members", CLIENTS[0])
    expect(first.get_by_role("cell")).to_have_text(["3", "3", "34", "1"])
    expect(row(page, "Members", CLIENTS[2])).to_have_count(0)
    rebalance = row(page, "Rebalances", "connection closed")
    expect(rebalance.get_by_role("cell")).to_have_text(
        ["2.3 s", "connection closed", "orders-3", "3 → 2", "2", "1", "0", "0", "2.3 s", "4.6 s", "7 (0 to 65)", "yes"]
    )
    expect(row(page, "Retry and dead letters", "dead letters")).to_contain_text("%DLQ%orders-group")
    expect(row(page, "Retry and dead letters", "dead letters")).to_contain_text("3 (in 50 min)")
    expect(row(page, "Incidents in this period", "ORDERED_QUEUE_STUCK")).to_contain_text("critical")
    expect(
        page.get_by_role("img", name=re.compile("Ownership timeline: 6 queues, 3 clients, 1 rebalances"))
    ).to_be_visible()
    expect(page.get_by_role("img", name="Lag by topic")).to_be_visible()


def test_the_slider_selects_an_instant_that_is_in_the_address(open_page, site):
    page = open_page("/group/orders-group")
    expect(page.get_by_text("Live", exact=True).first).to_be_visible()

    before = site.now - DIED - 5 * MINUTE
    page.get_by_role("slider", name="Time that the page shows").fill(str(before))

    expect(row(page, "Queues", "Orders@broker-a:4")).to_contain_text("orders-3")
    expect(row(page, "Members", CLIENTS[2]).get_by_role("cell").first).to_have_text("2")
    expect(page.get_by_role("heading", level=1).locator("..")).to_contain_text("OK")
    expect(page.get_by_text("No open incidents.")).to_be_visible()
    page.wait_for_url(re.compile(r"[?&]at=\d"))
    at = instant_ms(re.search(r"at=([^&]+)", page.url)[1], site.now)
    assert abs(at - before) < 10_000

    again = open_page(page.url.removeprefix(site.base))
    expect(row(again, "Queues", "Orders@broker-a:4")).to_contain_text("orders-3")
    expect(again.get_by_role("slider", name="Time that the page shows")).to_have_attribute(
        "aria-valuetext", re.compile("UTC")
    )
    again.get_by_role("button", name="Live", exact=True).click()
    expect(row(again, "Queues", "Orders@broker-a:4")).to_contain_text("orders-1")
    again.wait_for_url(lambda url: "at=" not in url)


def test_the_slider_works_by_keyboard_and_steps_from_change_to_change(open_page, site):
    page = open_page(f"/group/orders-group?at={site.now - STUCK - MINUTE}")

    slider = page.get_by_role("slider", name="Time that the page shows")
    page.get_by_role("button", name="Previous change").click()
    expect(slider).to_have_attribute("aria-valuetext", re.compile(_clock(site.now - DIED)))  # its queues moved
    expect(row(page, "Queues", "Orders@broker-a:4")).to_contain_text("orders-1")
    page.wait_for_url(lambda url: f"at={written(site.now - DIED)}" in url)
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(row(page, "Queues", "Orders@broker-a:4")).to_contain_text("orders-3")


def test_a_chosen_span_is_in_the_address(open_page):
    page = open_page("/group/orders-group?span=6h")
    expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")

    page.get_by_role("button", name="15 min").click()

    expect(page.get_by_role("region", name="Rebalances")).to_contain_text("No rebalances in this period.")
    page.wait_for_url(re.compile("span=15m"))


def test_new_rows_show_without_a_reload_and_the_slider_stays(open_page, site):
    clients = ("10.0.0.7@live-1", "10.0.0.7@live-2")
    group = Group("live-group", "Live", clients)
    group.state(site.now - 20 * MINUTE)
    group.owner(site.now - 20 * MINUTE, 0, clients[0])
    group.queue(site.now - 20 * MINUTE, 0, clients[0])
    append(site.tables, group.taken())
    home = open_page("/")
    expect(row(home, "Groups by health", "live-group")).to_have_count(1)
    live, past = open_page("/group/live-group"), open_page(f"/group/live-group?at={site.now - 10 * MINUTE}")
    expect(row(live, "Queues", "Live@broker-a:0")).to_contain_text("live-1")
    live.evaluate("window.notReloaded = true")

    group.moved(site.now, 0, *clients, "r")
    group.queue(site.now, 0, clients[1], status="BAD", status_reason="ORDERED_QUEUE_STUCK")
    group.incident(site.now, "livestuck", "OPENED", site.now)
    group.state(site.now, "BAD", "ORDERED_QUEUE_STUCK")
    append(site.tables, group.taken())

    expect(row(live, "Queues", "Live@broker-a:0")).to_contain_text("live-2")
    expect(live.get_by_role("region", name="Open incidents")).to_contain_text("ORDERED_QUEUE_STUCK")
    expect(row(home, "Groups by health", "live-group")).to_contain_text("BAD")
    assert live.evaluate("window.notReloaded")
    past.wait_for_timeout(1_500)  # longer than a page takes to look
    expect(row(past, "Queues", "Live@broker-a:0")).to_contain_text("live-1")
    expect(past.get_by_text("No open incidents.")).to_be_visible()
    later = row(past, "Incidents in this period", "ORDERED_QUEUE_STUCK")
    expect(later).to_contain_text("open")
    expect(later.get_by_role("cell").last).not_to_contain_text("-")  # it opened after the instant that is shown

    incident = open_page("/incident/livestuck")
    group.incident(site.now + 5_000, "livestuck", "RESOLVED", site.now)
    group.state(site.now + 5_000)
    append(site.tables, group.taken())
    expect(incident.get_by_text("Resolved", exact=True).first).to_be_visible()
    expect(incident.get_by_text("Not in the archive")).to_be_visible()
    expect(incident.locator(".timeline")).to_contain_text("resolved")


def test_a_silent_broker_is_told_from_one_that_was_not_asked(open_page, site):
    now, ours = site.now, {"cluster": "silent"}
    group = Group("silent-group", "Silent", ("10.0.0.8@silent-1",), broker_of="broker-{}".format, **ours)
    group.state(now - MINUTE)
    for queue in range(3):
        group.queue(now - MINUTE, queue, "10.0.0.8@silent-1", interval_ms=10_000)
    silence = {"code": DEADLINE, "remark": "no answer"}
    rows = [polled(now - ago, "CONSUME_STATS", "silent-group", broker="broker-0", **ours) for ago in (0, 85_000)]
    rows += [polled(now - 85_000, "CONSUME_STATS", "silent-group", broker=f"broker-{n}", **ours) for n in (1, 2)]
    rows += [polled(now - ago, "BROKER_STATUS", None, broker="broker-1", error=silence, **ours) for ago in (0, 75_000)]
    append_rows(site.tables, "telemetry", rows)
    append(site.tables, group.taken())
    expect(row(open_page("/"), "Groups by health", "silent-group")).to_have_count(1)

    page = open_page("/group/silent-group")

    items = page.get_by_role("list", name="Brokers without a fresh answer").get_by_role("listitem")
    expect(items).to_have_text(
        [
            re.compile(r"broker-1: asked, no answer since .* \(1 min 15 s\)"),
            re.compile("broker-2: not asked for 1 min 25 s"),
        ]
    )


def test_new_rows_keep_the_users_input_and_focus(open_page, site):
    page = open_page("/group/audit-group")
    link = page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link", name="Groups")
    button = page.get_by_role("button", name="Previous change")
    button.focus()
    updated = page.get_by_text("last update")
    was = updated.inner_text()

    group = Group("audit-group", "Audit", ("10.0.0.9@audit-1",))
    group.seq = 1_000
    group.queue(site.now + MINUTE, 0, "10.0.0.9@audit-1")  # not so late that others had fallen silent by then
    append(site.tables, group.taken())

    expect(updated).not_to_have_text(was)
    expect(button).to_be_focused()
    expect(link).to_be_visible()


def test_incidents_of_all_groups_are_filtered_by_the_address(open_page, site):
    stuck = Group("audit-group", "Audit", ("10.0.0.9@audit-1",))
    stuck.seq = 2_000
    stuck.incident(site.now - 40 * MINUTE, "audited", "OPENED", site.now - 40 * MINUTE, severity="warning")
    stuck.incident(site.now - 39 * MINUTE, "audited", "RESOLVED", site.now - 40 * MINUTE, severity="warning")
    append(site.tables, stuck.taken())
    page = open_page("/")
    page.get_by_role("link", name="All incidents").click()

    rows = page.get_by_role("group", name="Incidents, table").get_by_role("row")
    expect(rows.filter(has_text="orders-group")).to_contain_text("open")
    expect(rows.filter(has_text="audit-group")).to_contain_text("1 min")
    page.get_by_role("combobox", name="State").select_option("Resolved")
    page.wait_for_url(re.compile(r"state=resolved$"))
    expect(rows.filter(has_text="orders-group")).to_have_count(0)
    page.get_by_role("searchbox").fill("audit@broker-a:0")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("find=audit"))
    expect(rows).to_have_count(2)
    page.get_by_role("combobox", name="Severity").select_option("critical")
    expect(page.get_by_text("No incidents match these filters.")).to_be_visible()
    page.get_by_role("combobox", name="Severity").select_option("warning")
    rows.last.get_by_role("link", name="Audit:0 is stuck").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit:0 is stuck: the listener does not return")


def test_an_incidents_page_leads_with_cause_next_step_and_commands(open_page, site):
    page = open_page("/incident/stuck")  # a beginning of its id does

    expect(page.get_by_role("heading", level=1)).to_have_text("Orders:0 is stuck: the listener does not return")
    first = page.get_by_role("region").first
    expect(first.get_by_role("heading", level=2).first).to_have_text("Cause: LISTENER_HUNG")
    expect(first.get_by_text("Take a thread dump of the owner.")).to_be_visible()
    expect(first.locator("code")).to_have_text([
        f"mqadmin consumerStatus -g orders-group -i {CLIENTS[0]} -s",
        "mqadmin queryMsgByOffset -b broker-a -t Orders -i 0 -o 812",
    ])  # fmt: skip
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    first.get_by_role("button", name="Copy: The next message to be consumed").click()
    expect(first.get_by_text("Copied")).to_be_visible()
    assert (
        page.evaluate("navigator.clipboard.readText()") == "mqadmin queryMsgByOffset -b broker-a -t Orders -i 0 -o 812"
    )
    page.get_by_role("link", name="Group at opening").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders-group")
    assert f"at={written(site.now - STUCK)}" in page.url
    expect(page.get_by_text(f"As of {_shown(site.now - STUCK)}")).to_be_visible()


def _shown(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d ", time.gmtime(time_ms / 1000)) + _clock(time_ms)


def _clock(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(time_ms / 1000))


def test_clients_are_listed_and_lead_to_their_queues_over_time(open_page):
    page = open_page("/clients?group=orders-group")
    assert page.get_by_role("group", name="Clients, table").get_by_role("row").count() == 3
    row(page, "Filters", CLIENTS[1]).get_by_role("link", name=CLIENTS[1]).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(CLIENTS[1])
    groups = row(page, "Groups", "orders-group")
    expect(groups.get_by_role("cell").nth(3)).to_have_text("unknown")  # its version: nothing has reported it
    expect(page.get_by_role("img", name="The queues of the client over time: 3 lanes")).to_be_visible()
    expect(row(page, "Queues over time", "Orders@broker-a:5")).to_contain_text("still")


def test_a_queue_has_a_page_with_its_owners_over_time(open_page, site):
    page = open_page(f"/group/orders-group?at={site.now - DIED + MINUTE}")
    row(page, "Queues", "Orders@broker-a:4").get_by_role("link", name="Orders@broker-a:4").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Orders@broker-a:4")
    expect(page.get_by_role("region", name="Summary").get_by_role("link", name="orders-1")).to_be_visible()
    assert page.locator(".owned").all_inner_texts() == ["orders-3", "orders-1"]
    expect(row(page, "Owners in this period", "orders-3")).to_contain_text("reported by the client")
    expect(page.get_by_role("link", name="rebalance: orders-3 connection closed")).to_be_visible()
    expect(page.get_by_text("No incidents in this period.")).to_be_visible()
    page.get_by_role("button", name="15 min").click()
    page.wait_for_url(re.compile("span=15m"))
    assert "at=" in page.url


def test_what_moves_if_a_member_leaves_is_two_clicks_from_its_group(open_page):
    page = open_page("/group/orders-group")
    page.get_by_role("link", name="What if members join or leave").click()
    form = page.get_by_role("form", name="Change")
    leaving = form.get_by_role("checkbox").first
    leaving.check()
    form.get_by_label("New clients").fill("2")
    form.get_by_role("button", name="Predict").click()
    expect(page.get_by_text("those of the new clients are assumed")).to_be_visible()
    client = form.get_by_role("checkbox", checked=True).get_attribute("value")
    assert f"leave={quote(client)}&join=2" in page.url
    [gone] = [one for one in page.get_by_role("row").all() if client in one.inner_text()]
    _, before, after, gains, _ = gone.get_by_role("cell").or_(gone.get_by_role("rowheader")).all_inner_texts()
    assert int(before) > 0
    assert (after, gains) == ("0", "-")
    ways = page.get_by_role("region", name="How long its queues wait, by how it leaves").get_by_role("row")
    expect(ways.filter(has_text="Clean shutdown")).to_contain_text("at once")
    expect(ways.filter(has_text="Process killed")).to_contain_text(re.compile(r"up to 1 min\s*2\.3 s \(2 moves\)"))
    expect(ways.filter(has_text="Host or network lost")).to_contain_text(re.compile(r"up to 2 min 10 s\s*unknown"))
    form.get_by_label("Shares under").select_option("CONSISTENT_HASH")
    form.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("heading", name="Orders by client, under CONSISTENT_HASH")).to_be_visible()
    assert f"leave={quote(client)}" in page.url  # the rest of the change stays


def test_a_rebalances_page_lists_each_moved_queue(open_page, site):
    page = open_page("/group/orders-group/rebalance/r1")

    expect(page.get_by_role("heading", level=1)).to_have_text("orders-3 connection closed")
    expect(row(page, "Queues (2)", "Orders@broker-a:5").get_by_role("cell")).to_have_text(
        ["moved", "orders-3", "orders-2", "2.3 s", "7 (0 to 65)"]
    )
    expect(page.get_by_role("listitem").filter(has_text="orders-3left")).to_have_count(0)
    page.get_by_role("link", name="Group before").click()
    expect(row(page, "Queues", "Orders@broker-a:5")).to_contain_text("orders-3")


_REFUSED = {
    "/group/order-group": "did you mean orders-group",
    "/group/orders-group?at=1700000000000": "begins at",
    "/group/orders-group?at=nonsense": "Invalid time",
    "/group/orders-group?span=2y": "Invalid span",
    "/incident/none": "No incident has an id",
    "/incidents?group=order-group": "did you mean orders-group",
    "/client/nobody": "Unknown client nobody",
    "/group/orders-group/queue/Orders/broker-a/77": "had no queue Orders@broker-a:77",
    "/clients?group=nobody": "Unknown consumer group nobody",
    "/group/orders-group/what-if?leave=nobody": "nobody is not a member of orders-group",
    "/group/orders-group/what-if?join=1001": "Too many clients are named or join",
    "/group/orders-group/what-if?strategy=BEST": "Invalid strategy 'BEST'",
    "/incidents?state=shut": "use one of open, resolved",
    "/nothing/here": "There is no page at /nothing/here.",
    "/group/orders-group/rebalance/none": "No rebalance of orders-group has an id",
}
"""What the page of an address that can't be shown says."""


def test_an_unknown_name_is_one_sentence(open_page, site):
    with httpx.Client(base_url=site.base, headers={"Accept": "text/html"}, timeout=60) as client:
        texts = {path: unescape(client.get(path).text) for path in _REFUSED}
    later = [path for path, sentence in _REFUSED.items() if sentence not in texts[path]]  # by its connection
    page = open_page("/")
    for path in {*later, "/group/order-group", "/nothing/here"}:
        page.goto(site.base + path)
        expect(page.locator(".banner")).to_contain_text(_REFUSED[path])
        expect(page.get_by_role("link", name="All consumer groups")).to_be_visible()


def test_a_time_before_history_chosen_on_the_page_is_one_sentence(open_page, site):
    page = open_page("/group/orders-group?span=6h")

    page.get_by_role("slider", name="Time that the page shows").fill(str(site.now - 56 * MINUTE))

    begins = datetime.fromtimestamp((site.now - 50 * MINUTE) // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    expect(page.locator(".banner")).to_contain_text(f"begins at {begins} UTC")


def test_a_lane_says_who_owned_it_and_for_how_long(open_page):
    page = open_page("/group/orders-group")
    lanes = page.get_by_role("group", name=re.compile("Ownership of 6 queues"))
    lanes.scroll_into_view_if_needed()
    box = lanes.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 10)  # in the first lane, just now

    tip = page.locator(".lanes-tip")
    expect(tip).to_contain_text("Orders:0")
    expect(tip).to_contain_text(re.compile(r"orders-1, \d+ min( \d+ s)? in this period"))


def test_rebalances_are_sorted_by_what_they_cost_with_totals_by_cause(open_page, site):
    names = ("10.0.0.6@cost-1", "10.0.0.6@cost-2")
    group, now = Group("cost-group", "Cost", names), site.now
    group.state(now - 40 * MINUTE)
    for number, (ago, queues) in enumerate([(30, 1), (20, 3), (10, 2)]):
        moves = [(queue_id, *names) for queue_id in range(queues)]
        group.rebalance(now - ago * MINUTE - 5_000, now - ago * MINUTE, f"cost{number}", names[1], moves)
    group.state(now)
    append(site.tables, group.taken())
    until(lambda: httpx.get(f"{site.base}/api/v1/groups/cost-group/rebalances").is_success, 60)
    page = open_page("/group/cost-group")

    part = page.get_by_role("region", name="Rebalances")
    totals = part.locator("td[data-label='Total pause']")
    expect(totals).to_have_text(["4.6 s", "6.9 s", "2.3 s"])
    part.get_by_role("combobox", name="Sort rebalances").select_option("Largest total pause")
    expect(totals).to_have_text(["6.9 s", "4.6 s", "2.3 s"])
    expect(part).to_contain_text("3 rebalances · all pauses together 13.8 s")
    expect(part.get_by_role("list", name="Totals by cause")).to_have_text(re.compile("^3 . connection closed, 13.8 s$"))
    expect(part).to_contain_text("Duration: From the first cause until the last queue changed its owner.")


def test_clients_are_sorted_worst_first_or_by_any_column(open_page):
    page = open_page("/clients?group=orders-group")
    rows = page.get_by_role("group", name="Clients, table").locator("tbody tr")

    expect(rows.first).to_contain_text(re.compile(r"orders-1\s*BAD\s*ORDERED_QUEUE_STUCK"))
    page.get_by_role("columnheader", name="Client", exact=True).get_by_role("link").click()
    page.wait_for_url(re.compile("sort=client_id"))
    page.get_by_role("columnheader", name="Client", exact=True).get_by_role("link").click()
    page.wait_for_url(re.compile("sort=-client_id"))
    expect(rows.first).to_contain_text("orders-2")
    page.get_by_role("combobox", name="Order").select_option("Most incidents")
    page.wait_for_url(re.compile("sort=open_incidents"))
    expect(rows.first).to_contain_text("orders-1")
    rows.first.locator("td[data-label=Incidents] a").click()
    expect(page.get_by_role("link", name="Orders:0 is stuck").first).to_be_visible()
    page.goto(page.url.split("/incidents")[0] + "/clients?sort=colour")
    expect(page.get_by_text("Invalid sort 'colour': use one of health, ")).to_be_visible()


def _period(page) -> tuple[int, int]:
    page.wait_for_url(re.compile("since=.*until="))
    found = dict(re.findall(r"(since|until)=([^&#]+)", page.url))
    return instant_ms(found["since"], 0), instant_ms(found["until"], 0)


def test_dragging_over_the_lanes_selects_the_period(open_page, site):
    page = open_page("/group/orders-group")
    lanes = page.get_by_role("group", name=re.compile("Ownership of 6 queues"))
    lanes.scroll_into_view_if_needed()
    box = lanes.bounding_box()
    y, begin, end = box["y"] + 30, box["x"] + box["width"] * 0.4, box["x"] + box["width"] * 0.6
    page.mouse.move(begin, y)
    page.mouse.down()
    page.mouse.move((begin + end) / 2, y, steps=3)
    page.mouse.move(end, y, steps=3)
    page.mouse.up()

    since, until = _period(page)
    assert 8 * MINUTE < until - since < 20 * MINUTE  # a fifth of an hour, by the width of the names
    slider = page.get_by_role("slider", name="Time that the page shows")
    expect(slider).to_have_attribute("min", str(since))
    expect(slider).to_have_attribute("max", str(until))
    page.reload()
    expect(slider).to_have_attribute("min", str(since))
    page.get_by_role("button", name="Live", exact=True).click()
    expect(slider).not_to_have_attribute("min", str(since))
    page.wait_for_url(lambda url: "since=" not in url)


def test_buttons_zoom_around_the_instant_that_is_shown(open_page, site):
    at = site.now - DIED
    page = open_page(f"/group/orders-group?at={at}")
    page.get_by_role("button", name="Zoom in").click()
    since, until = _period(page)
    assert (until - since, (until + since) // 2) == (30 * MINUTE, at)
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(lambda url: _length(url) == 15 * MINUTE)
    page.get_by_role("button", name="Earlier: half a period").click()
    page.wait_for_url(lambda url: "until" in url and _end(url) < at + 7 * MINUTE)
    page.get_by_role("button", name="Zoom out").click()
    page.wait_for_url(lambda url: _length(url) == 30 * MINUTE)


def _length(url: str) -> int:
    found = dict(re.findall(r"(since|until)=([^&#]+)", url))
    return instant_ms(found["until"], 0) - instant_ms(found["since"], 0)


def _end(url: str) -> int:
    return instant_ms(re.search(r"until=([^&#]+)", url)[1], 0)


def test_a_period_whose_ends_are_in_the_wrong_order_is_one_sentence(open_page):
    page = open_page("/group/orders-group?since=1h&until=2h")
    expect(page.get_by_text("A period needs since and until, and since is the earlier one.")).to_be_visible()
