"""The texts of messages: the default templates and users' own, in a sandbox."""

import msgspec
import pytest

from streaming.base.errors import UserError
from streaming.serve.alerting.alert import Alert, Delivery, key_of
from streaming.serve.alerting.render import NAMES, Texts
from tests.support.alerting import MINUTE, NOW, transition


def alert(kind="OPENED", incident="i1", notified=None, **fields):
    one = transition(incident, **fields)
    return Alert(key=key_of(one, "ops"), kind=kind, notified_severity=notified, transition=one)


def message(*alerts, texts=None, summary=False):
    return (texts or Texts("", "http://watch")).message(Delivery("k", "ops", alerts, summary=summary, attempt=1))


@pytest.mark.parametrize(
    ("kind", "fields", "title", "words"),
    [
        ("OPENED", {}, "CRITICAL LAG_GROWTH: orders Orders@b:0", ["why", "what", "lag: 7", "2026-11-21T16:53:20.000Z"]),
        ("ESCALATED", {}, "ESCALATED CRITICAL LAG_GROWTH: orders Orders@b:0", ["previously warning"]),
        ("REMINDER", {"sub_cause": "X"}, "REMINDER CRITICAL LAG_GROWTH X: orders Orders@b:0", ["alert ack i1"]),
        ("RESOLVED", {"time": NOW + 61 * MINUTE}, "RESOLVED LAG_GROWTH: orders Orders@b:0", ["(1 h 1 min)"]),
    ],
)
def test_each_kind_of_message_has_its_title_and_link(kind, fields, title, words):
    made = message(alert(kind, notified="warning", **fields))
    assert made.title == title
    for word in [*words, "http://watch/incident/i1"]:
        assert word in made.body


def test_a_message_has_the_commands_to_run_next_with_the_latest_evidence():
    stuck = {"code": "ORDERED_QUEUE_STUCK", "sub_cause": "SUSPEND_LOOP", "evidence": '{"commit_offset":712}'}
    for kind in ("OPENED", "ESCALATED", "REMINDER"):
        made = message(alert(kind, notified="warning", **stuck))
        assert "\nmqadmin queryMsgByOffset -b b -t Orders -i 0 -o 712\n" in made.body
        assert made.alerts[0]["commands"][0] in made.body


def test_an_alert_of_the_cluster_has_no_empty_group():
    made = message(alert(group="", cluster="", code="JOB_SILENT", subject="job"))
    assert made.title == "CRITICAL JOB_SILENT: job"


def test_alerts_of_a_group_are_in_one_message_each_with_its_key():
    made = message(alert(severity="warning"), alert("RESOLVED", "i2", seq=7))
    assert made.title == "2 alerts for orders, critical"
    assert "WARNING LAG_GROWTH" in made.body
    assert "RESOLVED LAG_GROWTH" in made.body
    assert [one["key"] for one in made.alerts] == ["i1:1:ops", "i2:7:ops"]


def test_a_summary_counts_similar_alerts_and_names_some():
    alerts = [alert(incident=f"i{n}", group=f"g{n}") for n in range(5)]
    made = message(*alerts, alert("RESOLVED", "x", severity="info"), summary=True)
    assert made.title == "6 alerts for 6 groups, 5 critical"
    assert "5 x OPENED critical LAG_GROWTH: g0, g1, g2 and 2 more" in made.body
    assert "1 x RESOLVED info LAG_GROWTH: orders" in made.body
    assert len(made.alerts) == 6


def test_a_users_template_replaces_ours_and_the_others_stay(tmp_path):
    (tmp_path / "opened.txt").write_text("{{ code | lower }} in {{ group }}\nat {{ opened_at | time }}")
    texts = Texts(str(tmp_path), "http://watch")
    made = message(alert(), texts=texts)
    assert (made.title, made.body) == ("lag_growth in orders", "at 2026-11-21T16:53:20.000Z")
    assert message(alert("RESOLVED"), texts=texts).title.startswith("RESOLVED")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ code", "unexpected end of template"),
        ("{{ no_such_thing }}", "'no_such_thing' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "/etc/passwd"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ lipsum.__globals__['os'].popen('id').read() }}", "unsafe"),
    ],
)
def test_an_invalid_template_is_refused_at_the_start(tmp_path, name, text, why):
    (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(UserError, match=rf"Invalid alert template .*{name}\.txt: .*{why}"):
        Texts(str(tmp_path), "http://watch")


def test_a_template_that_fails_on_one_alert_does_not_cost_the_alert(tmp_path):
    (tmp_path / "opened.txt").write_text("lag {{ evidence.lag + 1 }}")
    texts = Texts(str(tmp_path), "http://watch")
    assert message(alert(), texts=texts).title == "lag 8"
    assert message(alert(evidence="{}"), texts=texts).title == "CRITICAL LAG_GROWTH: orders Orders@b:0"


def test_text_from_telemetry_is_never_rendered_as_a_template():
    assert "{{ 1 + 1 }}" in message(alert(subject="{{ 1 + 1 }}")).title


def test_a_title_is_one_line_for_any_client_id():
    title = message(alert(group="a\r\x1b[2Jb")).title
    assert title == "CRITICAL LAG_GROWTH: a  [2Jb Orders@b:0"


def test_every_attempt_sends_the_same_message():
    texts = Texts("", "http://watch")
    first = Delivery("k", "ops", (alert(),), summary=False, attempt=1)
    assert texts.message(first) == texts.message(msgspec.structs.replace(first, attempt=9))
