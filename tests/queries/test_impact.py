"""Impact of an incident on messages, its notifications, and its title."""

import pytest

from rebalance_model.observe.rules.registry import RULES
from streaming.queries.incident_detail import incident, unknown_text, waiting_text
from streaming.queries.results import Impact, IncidentDetail
from streaming.queries.rule_text import headline
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, MINUTE, Group
from tests.support.tables import append, append_rows, make_tables

NOW = 1_795_300_000_000
DELIVERY = {
    "attempt": 1, "due_at": None, "cluster": "prod", "group": "orders-group", "incident_id": "stuck", "seq": 1,
    "code": "ORDERED_QUEUE_STUCK", "severity": "critical", "alert": None, "delivery": "d", "detail": "",
    "message": "OPENED",
}  # fmt: skip


def detail_of(tmp_path, lags: tuple[int | None, int | None] = (28, 7), controls=(), deliveries=(), **fields: object):
    """Return an incident of queue 0 of two queues, of which the first client has both."""
    group = Group("orders-group", "Orders", CLIENTS)
    group.state(NOW - 5 * MINUTE)
    for queue_id, lag in enumerate(lags):
        group.owner(NOW - 5 * MINUTE, queue_id, CLIENTS[0])
        group.queue(NOW - 4_000, queue_id, CLIENTS[0], lag=lag)
    group.incident(NOW - 2 * MINUTE, "stuck", "OPENED", NOW - 2 * MINUTE, **fields)
    group.state(NOW)
    tables = make_tables(tmp_path / "tables")
    append(tables, group.taken())
    if controls:
        append_rows(tables, "alert_controls", controls)
    if deliveries:
        append_rows(tables, "alert_deliveries", deliveries)
    with ReadModel(tables) as model:
        return incident(model, "stuck")


def impact_of(tmp_path, lags=(28, 7), **fields: object) -> Impact:
    found = detail_of(tmp_path, lags, **fields).impact
    assert found is not None
    return found


def test_the_impact_of_a_queue_is_that_of_this_queue(tmp_path):
    impact = impact_of(tmp_path)

    assert (impact.queues, impact.lag, impact.waiting_ms, impact.lag_time) == (1, 28, 28_000, NOW - 4_000)
    assert waiting_text(impact) == "28 messages wait, the oldest for 28 s or less."


@pytest.mark.parametrize(("client", "queues", "lag"), [(CLIENTS[0], 2, 35), (CLIENTS[1], 2, 35)])
def test_the_impact_of_a_client_is_that_of_its_queues_or_of_the_group(tmp_path, client, queues, lag):
    about = {"code": "CLIENT_UNRESPONSIVE", "sub_cause": "", "topic": None, "broker": None, "queue_id": None}
    impact = impact_of(tmp_path, subject=client, client_id=client, **about)

    assert (impact.queues, impact.lag) == (queues, lag)


def test_a_lag_that_is_unknown_is_not_shown_as_known(tmp_path):
    impact = impact_of(tmp_path, (None, 7))
    assert (impact.lag, impact.lag_unknown, impact.lag_time) == (None, 1, None)
    assert waiting_text(impact) == "It is unknown whether messages wait."

    several = {"code": "CONSUMER_IDLE", "sub_cause": "", "topic": None, "broker": None, "queue_id": None}
    impact = impact_of(tmp_path / "group", (None, 7), subject="", client_id=None, **several)
    assert waiting_text(impact) == "≥7 messages wait, the oldest for 7 s or less."
    assert unknown_text(impact) == "The lag of 1 of 2 queues is unknown."


def test_no_message_waits_only_if_that_is_known_of_each_queue(tmp_path):
    assert waiting_text(impact_of(tmp_path, (0, 7))) == "No message waits."


def test_each_alert_is_listed_with_its_last_step(tmp_path):
    steps = [
        {"number": 1, "time": NOW - 9_000, "step": "QUEUED", "channel": "chat", "key": "a"},
        {"number": 2, "time": NOW - 8_000, "step": "SENT", "channel": "chat", "key": "a"},
        {"number": 3, "time": NOW - 7_000, "step": "FAILED", "channel": "mail", "key": "b", "detail": "refused"},
        {"number": 4, "time": NOW - 6_000, "step": "SENT", "channel": "chat", "key": "c", "incident_id": "other"},
    ]
    found = detail_of(tmp_path, deliveries=[DELIVERY | step for step in steps]).notifications

    assert [(one.channel, one.step, one.time) for one in found] == [
        ("chat", "SENT", NOW - 8_000),
        ("mail", "FAILED", NOW - 7_000),
    ]


def test_who_acknowledged_and_silenced_it_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    nothing = {"cluster": None, "group": None, "code": None, "until": None, "reason": "", "author": "ann"}
    silence = nothing | {"time": NOW - 9_000, "control": "SILENCE", "until": NOW + MINUTE}
    controls = [
        nothing | {"time": NOW - 8_000, "control": "ACK", "control_id": "stuck", "reason": "mine"},
        silence | {"control_id": "s1", "group": "orders-*"},
        silence | {"control_id": "s2", "group": "pay-*"},
        silence | {"control_id": "s3", "until": NOW - 1},
        silence | {"control_id": "s4"},
        silence | {"control_id": "s4", "control": "END", "time": NOW - 5_000},
    ]
    detail: IncidentDetail = detail_of(tmp_path, controls=controls)

    assert detail.acknowledged is not None
    assert (detail.acknowledged.author, detail.acknowledged.reason) == ("ann", "mine")
    assert [one.silence_id for one in detail.silences] == ["s1"]


def test_a_title_says_what_is_wrong_and_why(tmp_path):
    found = detail_of(tmp_path, sub_cause="SUSPEND_LOOP", main_cause="SUSPEND_LOOP", main_explanation="…")

    assert headline(found.incident) == "Orders:0 is stuck: the listener refuses one message"


def test_each_rule_has_a_title_and_each_cause_a_few_words():
    assert not [rule.code for rule in RULES if not rule.title]
    assert not [(rule.code, cause) for rule in RULES for cause in rule.advice if cause and not rule.advise(cause).short]
    assert len({(rule.code, rule.title) for rule in RULES}) == len({rule.code for rule in RULES})
