"""An incident's page: what it means, who was notified, what people do about it, and where its names lead."""

import re

import httpx
import msgspec
import pytest
from playwright.sync_api import expect

from rebalance_model.observe.effects import IncidentTransition
from streaming.queries.incident_detail import incident
from streaming.serve.alerting.alert import Alert
from streaming.serve.dashboard.pages.incidents import evidence_rows
from streaming.serve.dashboard.parts.markup import clock
from streaming.serve.links import below, incident_action_link
from tests.serve.dashboard.tables import CLIENTS, FRAMES, MINUTE, NOW, Group
from tests.support.tables import append, append_rows, read_rows
from tests.support.waiting import until

NAMES = ("10.0.0.4@acts-1", "10.0.0.4@acts-2")


@pytest.fixture(scope="module")
def acts(site):
    """A group whose queue 0 is stuck since 6 minutes, explained by a client that does not answer."""
    now = site.now
    group = Group("acts-group", "Acts", NAMES)
    group.state(now - 20 * MINUTE)
    for queue_id in range(3):
        group.owner(now - 20 * MINUTE, queue_id, NAMES[0])
        group.queue(now - 6 * MINUTE, queue_id, NAMES[0], lag=74)
    group.rebalance(now - 9 * MINUTE, now - 8 * MINUTE, "acts-r", NAMES[1], [(0, NAMES[1], NAMES[0])])
    about = {"topic": None, "broker": None, "queue_id": None, "subject": NAMES[0], "client_id": NAMES[0]}
    group.incident(now - 6 * MINUTE, "acts-client", "OPENED", now - 6 * MINUTE,
                   **about | {"code": "CLIENT_UNRESPONSIVE", "sub_cause": ""})  # fmt: skip
    for queue_id in range(3):
        group.incident(now - 5 * MINUTE, f"acts-queue-{queue_id}", "OPENED", now - 5 * MINUTE, queue_id,
                       parent="acts-client", sub_cause="OWNER_UNRESPONSIVE", absorbed=True)  # fmt: skip
    for queue_id in range(3):
        group.queue(now - 20_000, queue_id, NAMES[0], lag=74, status="BAD", status_reason="ORDERED_QUEUE_STUCK")
    group.state(now, "BAD", "ORDERED_QUEUE_STUCK")
    rows = group.taken()
    append(site.tables, rows)
    opened = next(row for row in rows if isinstance(row, IncidentTransition))
    alert = msgspec.json.encode(Alert(key="acts", kind="OPENED", notified_severity=None, transition=opened)).decode()
    sent = {"attempt": 1, "due_at": None, "cluster": "prod", "group": "acts-group", "incident_id": "acts-client",
            "seq": opened.seq, "code": "CLIENT_UNRESPONSIVE", "severity": "critical", "alert": None, "delivery": "d",
            "detail": "", "message": "OPENED", "channel": "night-shift", "key": "acts"}  # fmt: skip
    append_rows(site.tables, "alert_deliveries", [
        sent | {"number": 900, "time": now - 6 * MINUTE, "step": "QUEUED", "alert": alert},
        sent | {"number": 901, "time": now - 5 * MINUTE, "step": "SENT"},
    ])  # fmt: skip
    until(lambda: httpx.get(f"{site.base}/api/v1/incidents/acts-queue-2").is_success, 60)


@pytest.mark.usefixtures("acts")
def test_it_says_what_is_wrong_what_waits_and_who_was_notified(open_page):
    page = open_page("/incident/acts-client")

    expect(page.get_by_role("heading", level=1)).to_have_text("10.0.0.4@acts-1 does not answer")
    expect(page.get_by_text("222 messages wait, the oldest for 1 min 14 s or less.")).to_be_visible()
    expect(page.get_by_text(re.compile(r"Observed .*, 20 s ago"))).to_be_visible()
    notified = page.get_by_role("region", name="Notifications").get_by_role("listitem")
    expect(notified).to_have_count(1)
    expect(notified).to_contain_text(re.compile(r"\d\d:\d\d:\d\d night-shift opened, sent"))


@pytest.mark.usefixtures("acts")
def test_its_head_stays_in_sight_and_its_queue_is_above_notifications(open_page):
    page = open_page("/incident/acts-queue-0")
    head = page.locator(".incident-head")
    for said in ("critical", "ORDERED_QUEUE_STUCK", "open for 5 min", "Acts:0 is stuck", "74 messages wait"):
        expect(head).to_contain_text(said)
    names = page.locator(".panel > .panel-head h2").all_inner_texts()
    assert names.index("The ten minutes around it") < names.index("Notifications")

    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(head).to_be_in_viewport(ratio=1)
    expect(head.get_by_text("Acknowledge", exact=True)).to_be_visible()


@pytest.mark.usefixtures("acts")
def test_equal_incidents_that_it_explains_are_one_entry(open_page):
    page = open_page("/incident/acts-client")

    children = page.get_by_role("region", name="Explained incidents").get_by_role("listitem")
    expect(children).to_have_count(1)
    expect(children).to_contain_text("3 queues: Acts@broker-a:0, Acts@broker-a:1, Acts@broker-a:2")
    children.get_by_role("link", name="Acts@broker-a:1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Acts:1 is stuck: its owner does not answer")
    page.get_by_role("link", name="10.0.0.4@acts-1 does not answer").click()
    page.wait_for_url(re.compile("/incident/acts-client"))


@pytest.mark.usefixtures("acts")
def test_what_it_names_is_a_link(open_page):
    page = open_page("/incident/acts-queue-0")

    for name, address in {
        "acts-group": "/group/acts-group", "Acts@broker-a:0": "/group/acts-group/queue/Acts/broker-a/0",
        NAMES[0]: "/client/", "Last rebalance before it": "/group/acts-group/rebalance/acts-r",
    }.items():  # fmt: skip
        link = page.locator("main, .nicegui-content").get_by_role("link", name=name, exact=True).first
        expect(link).to_have_attribute("href", re.compile(f"^{re.escape(address)}"))
    page.get_by_role("link", name="Last rebalance before it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("connection closed")


@pytest.mark.usefixtures("acts")
def test_it_is_acknowledged_and_silenced_on_its_page(open_page, site):
    page = open_page("/incident/acts-client")
    page.get_by_text("Acknowledge", exact=True).click()
    form = page.get_by_role("form", name="Acknowledge")
    form.get_by_label("Your name").press_sequentially("Ann")
    form.get_by_label("Reason").press_sequentially("on it")
    form.get_by_role("button").click()

    expect(page.get_by_text(re.compile("Acknowledged by Ann, .* on it"))).to_be_visible()
    expect(form).to_have_count(0)
    page.get_by_text("Silence", exact=True).click()
    form = page.get_by_role("form", name="Silence")
    expect(form.get_by_label("Your name")).to_have_value("Ann")  # as entered before
    form.get_by_label("Reason").press_sequentially("upgrade")
    form.get_by_label("Duration").select_option("2 h")
    form.get_by_role("button", name="Silence CLIENT_UNRESPONSIVE in acts-group").click()
    expect(page.get_by_text(re.compile("Silenced by Ann until .* upgrade"))).to_be_visible()
    rows = {row["control"]: row for row in read_rows(site.tables, "alert_controls") if row["author"] == "Ann"}
    assert rows["ACK"]["control_id"] == "acts-client"
    assert rows["SILENCE"]["until"] - rows["SILENCE"]["time"] == 120 * MINUTE


@pytest.mark.usefixtures("acts")
def test_it_is_closed_and_opened_again_on_its_page(open_page):
    page = open_page("/incident/acts-client")
    for action, button, state in (
        ("Close", "Count as resolved until it is worse", "Closed; its condition still holds"),
        ("Open again", "Open again", "open for"),
    ):
        page.locator("summary").get_by_text(action, exact=True).click()
        form = page.get_by_role("form", name=action)
        form.get_by_label("Your name").fill("Ann")
        form.get_by_label("Reason").press_sequentially("known")
        form.get_by_role("button", name=button).click()
        expect(page.locator(".incident-head .meta")).to_contain_text(state)
        expect(form).to_have_count(0)


def test_what_cannot_be_done_is_said(open_page, site):
    page = open_page("/incident/stuck0001")
    page.get_by_text("Silence", exact=True).click()
    form = page.get_by_role("form", name="Silence")
    form.get_by_label("Your name").fill("Ann")
    form.get_by_label("Reason").fill(" ")
    form.get_by_role("button").click()

    expect(form.get_by_role("status")).to_have_text("A silence needs a reason.")
    assert CLIENTS[0] not in {row["author"] for row in read_rows(site.tables, "alert_controls")}


def test_an_action_is_sent_below_the_path_prefix():
    with below("/rw"):
        assert incident_action_link("a/b", "silence") == "/rw/api/v1/incidents/a%2Fb/silence"


def test_an_entry_whose_cause_changed_says_all_of_its_main_cause(site, open_page):
    now = site.now
    group = Group("causes-group", "Causes", NAMES)
    group.state(now - 6 * MINUTE)
    group.queue(now - 6 * MINUTE, 0, NAMES[0], lag=74)
    for transition, cause, minutes in (("OPENED", "SUSPEND_LOOP", 5), ("RECLASSIFIED", "LISTENER_HUNG", 4)):
        group.incident(now - minutes * MINUTE, "causes-queue", transition, now - 5 * MINUTE, sub_cause=cause,
                       main_cause="SUSPEND_LOOP", main_explanation="The listener suspends the queue.")  # fmt: skip
    append(site.tables, group.taken())
    until(lambda: httpx.get(f"{site.base}/api/v1/incidents/causes-queue").is_success, 60)

    entry = open_page("/group/causes-group").get_by_role("listitem").filter(has_text="SUSPEND_LOOP").first
    expect(entry).to_contain_text("SUSPEND_LOOP")
    expect(entry).not_to_contain_text("LISTENER_HUNG")


def test_evidence_is_formatted_and_unknown_values_are_marked(model):
    detail = incident(model, "stuck")
    first = {"lag": 12_000, "stalled_ms": 90_000, "commit_at": NOW - 1_000, "owner": None}
    worst = detail.incident.model_copy(update={"evidence": {"lag": 12_001, "stalled_ms": -90_000, "commit_at": 0}})

    rows = {name: (before, after) for name, before, after in evidence_rows(worst, first, NOW)}
    assert rows["lag"] == ("12\u202f000", "12\u202f001")
    assert rows["no commit for"] == ("1 min 30 s", "-1 min 30 s")
    assert rows["commit at"][0] == clock(NOW - 1_000, NOW)
    assert ["unknown" in text for text in (rows["commit at"][1], rows["owner"][0])] == [True, True]
    assert "not reported" in rows["owner"][1]


def test_an_incidents_page_shows_where_the_listener_hangs(open_page):
    page = open_page("/incident/stuck0001")

    stacks = page.get_by_role("region", name="What the listener was doing")
    expect(stacks).to_contain_text(CLIENTS[0])
    expect(stacks.get_by_label("Stack of ConsumeMessageThread_orders-group_1")).to_have_text("\n".join(FRAMES))


def test_an_incidents_page_shows_its_queue_evidence_and_timeline(open_page):
    page = open_page("/incident/stuck0001")

    picture = page.get_by_role("group", name="Queue over time")
    expect(picture.locator(".owned")).to_have_text("orders-1")
    assert picture.locator("path").count() == 2  # lag and waiting time: nothing else was reported
    expect(page.get_by_role("listitem").filter(has_text="this incident opened LISTENER_HUNG")).to_be_visible()
    page.get_by_text("Values of the picture").click()
    values = page.get_by_role("group", name="Values, table").get_by_role("row")
    assert values.count() == 22
    expect(values.last).to_contain_text("28")
    expect(row_of(page, "lag")).to_contain_text("28")
    event = page.get_by_label("Event as JSON")
    expect(event).to_be_hidden()
    page.get_by_text("The event as JSON").click()
    expect(event).to_contain_text('"source_id": "poll-1@1"')
    assert "<span" not in page.locator("body").inner_text()


def row_of(page, text: str):
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=text, exact=True))
