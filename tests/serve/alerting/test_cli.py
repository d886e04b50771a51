"""The commands `rebalance-watch alert …`."""

import json
import time

import pytest
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.base.times import instant_ms
from streaming.cli.main import app
from streaming.serve.alerting.config import load_alerts
from streaming.serve.alerting.follow import Ledger
from tests.support.alerting import HOUR, Clock, Listener, append_transitions, config, rounds, start, transition

FILE = """
[[routes]]
channels = ["ops"]

[channels.ops]
kind = "webhook"
url = "http://127.0.0.1:1/secret"
"""


@pytest.fixture
def alert(tmp_path, monkeypatch):
    """Return a function that runs a command and returns its output or its error."""
    (tmp_path / "alerts.toml").write_text(FILE)
    monkeypatch.setenv("REBALANCE_WATCH_ALERTS__FILE", str(tmp_path / "alerts.toml"))
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def alert(*arguments, code=0):
        ran = CliRunner().invoke(app, ["alert", *arguments])
        if isinstance(ran.exception, UserError):
            raise ran.exception
        assert ran.exit_code == code, ran.output
        return ran.output

    return alert


def open_incident(tables, *names):
    append_transitions(tables, *(transition(name, seq=number) for number, name in enumerate(names, 1)))
    rounds(start(tables, Clock(), {"ops": Listener()}, config()))


def test_a_silence_is_added_listed_and_ended(alert, tables):
    said = alert("silence", "add", "-g", "pay-*", "--code", "LAG_*", "--for", "2h", "--reason", "upgrade")
    name = said.split()[1]
    assert f"rebalance-watch alert silence end {name}" in said
    [silence] = json.loads(alert("silence", "list", "--format", "json"))
    assert (silence["control_id"], silence["group"], silence["code"], silence["reason"]) == (
        name, "pay-*", "LAG_*", "upgrade",
    )  # fmt: skip
    assert silence["until"] - silence["time"] == 2 * HOUR
    assert "upgrade" in alert("silence", "list")
    alert("silence", "end", name)
    assert json.loads(alert("silence", "list", "--format", "json")) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["silence", "add", "--for", "2h", "--reason", "x"], "would silence everything"),
        (["silence", "add", "-g", "a", "--for", "soon", "--reason", "x"], "Invalid duration 'soon'"),
        (["silence", "add", "-g", "a", "--for", "0s", "--reason", "x"], "needs a duration above zero"),
        (["silence", "add", "--code", "LAGGY", "--for", "2h", "--reason", "x"], "Invalid code 'LAGGY'"),
        (["silence", "end", "nobody"], "Unknown or expired silence nobody"),
        (["ack", "nothing"], "No incident has an id beginning with 'nothing'"),
        (["routes", "--code", "LAG_GROWHT"], "Invalid code 'LAG_GROWHT': did you mean LAG_GROWTH?"),
        (["routes", "-g", "a"], "with --code: routes depend on it"),
        (["test", "nobody"], "Unknown channel nobody: the alerts file defines ops."),
    ],
)
def test_an_invalid_request_is_a_user_error(alert, tables, arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        alert(*arguments)


def test_an_incident_is_acknowledged_by_the_beginning_of_its_id(alert, tables):
    open_incident(tables, "abcdef", "other")
    assert "acknowledged: LAG_GROWTH orders Orders@b:0" in alert("ack", "abc", "--reason", "mine")
    [first, _] = sorted(json.loads(alert("status", "--format", "json", code=3))["incidents"],
                        key=lambda one: one["incident_id"])  # fmt: skip
    assert (first["incident_id"], first["acknowledged"]) == ("abcdef", True)
    append_transitions(tables, transition("abcdef", "RESOLVED", 9))
    with pytest.raises(UserError, match="was resolved at"):
        alert("ack", "abc")


def test_control_characters_in_names_do_not_reach_the_terminal(alert, tables):
    append_transitions(tables, transition(group="a\x1b[2Jb"))
    rounds(start(tables, Clock(), {"ops": Listener()}, config()))
    assert "a\\x1b[2Jb" in alert("status", code=3)
    assert "\x1b[2J" not in alert("ack", "i1")


def test_a_silent_job_can_be_acknowledged_too(alert, tables):
    clock = Clock()
    clock.now = time.time_ns() // 1_000_000
    alerting = start(tables, clock, {"ops": Listener()}, config())
    rounds(alerting)
    clock.forward(HOUR)
    rounds(alerting)
    [silent] = json.loads(alert("status", "--format", "json", code=3))["incidents"]
    assert "acknowledged: JOB_SILENT" in alert("ack", silent["incident_id"][:6])


def test_the_status_lists_waiting_messages_and_the_missing_process(alert, tables):
    open_incident(tables, "abcdef")
    append_transitions(tables, transition("new"))
    status = json.loads(alert("status", "--format", "json", code=3))
    assert (status["running"], status["behind"]) == (False, 1)
    [ops] = status["channels"]
    assert (ops["channel"], ops["kind"], ops["waiting"], ops["failing_since"]) == ("ops", "webhook", 1, None)
    assert [one["notified"] for one in status["incidents"]] == [["ops"]]
    shown = alert("status", code=3)
    assert "not running; unprocessed incident commits: 1" in shown
    assert "secret" not in shown


def test_a_test_of_an_unreachable_channel_fails_and_leaves_no_trace(alert, tables):
    with pytest.raises(UserError, match=r"Channel ops did not accept the sample alert: no response \(ConnectError\)\."):
        alert("test", "ops")
    assert Ledger(tables).rows() == []


BY_DAY = """
[[routes]]
severity = "critical"
channels = ["pager"]

[[routes]]
groups = ["pay-*", "orders"]
channels = ["ops"]
hours = "09:00-18:00"
days = "mon-fri"
time_zone = "Asia/Shanghai"

[channels.pager]
kind = "webhook"
url = "http://127.0.0.1:1/secret"
"""


@pytest.fixture
def by_day(alert, tmp_path):
    (tmp_path / "alerts.toml").write_text(BY_DAY + FILE.partition("\n\n")[2])
    return alert


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--at", "2026-11-23T20:00Z"], [("pager", 1, None)]),
        (["--at", "2026-11-23T20:00Z", "--severity", "warning"], [("ops", 2, "2026-11-24T01:00Z")]),
        (["--at", "2026-11-27T10:00Z", "--severity", "warning"], [("ops", 2, "2026-11-30T01:00Z")]),
        (["--at", "2026-11-24T02:00Z", "--severity", "warning"], [("ops", 2, None)]),
        (["--at", "2026-11-24T02:00Z", "--severity", "warning", "-g", "audit"], []),
    ],
)
def test_the_routes_say_who_gets_an_incident_at_a_time(by_day, arguments, expected):
    given = ["-g", "pay-1", "--code", "LAG_GROWTH", *arguments]
    found = json.loads(by_day("routes", *given, "--format", "json"))
    begins = {text: instant_ms(text, 0) for *_, text in expected if text}
    assert [(one["channel"], one["route"], one["begins"]) for one in found] == [
        (channel, route, begins.get(text)) for channel, route, text in expected
    ]


def test_the_routes_are_shown_with_their_hours(by_day):
    shown = by_day("routes", "--at", "2026-11-27T10:00Z")
    [_, first, second] = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    assert first == "1 pager ≥ critical * * * any time active"
    assert second.startswith("2 ops ≥ info * pay-*, orders * mon-fri 09:00-18:00 Asia/Shanghai begins 11-30 ")
    said = by_day("routes", "-g", "pay-1", "--code", "LAG_GROWTH", "--severity", "info", "--at", "2026-11-27T10:00Z")
    assert "when its hours begin, if it is still open" in said
    assert "within 30 s" in by_day("routes", "-g", "pay-1", "--code", "LAG_GROWTH")
    assert "at once" in by_day("routes", "-g", "pay-1", "--code", "ORDERED_QUEUE_STUCK")
    nobody = by_day("routes", "-g", "audit", "--code", "LAG_GROWTH", "--severity", "info")
    assert nobody == "No route matches LAG_GROWTH info: nobody is notified.\n"


def test_an_open_incident_is_asked_for_by_the_beginning_of_its_id(by_day, tables):
    append_transitions(tables, transition("abcdef", severity="warning"))
    [ops] = json.loads(by_day("routes", "abc", "--at", "2026-11-24T02:00Z", "--format", "json"))
    assert (ops["channel"], ops["route"]) == ("ops", 2)


def test_the_status_has_the_channels_outside_their_hours(by_day, tables):
    append_transitions(tables, transition(severity="warning"))  # at 00:53 there
    rounds(start(tables, Clock(), {"ops": Listener(), "pager": Listener()}, load_alerts_of(tables)))
    [incident] = json.loads(by_day("status", "--format", "json", code=3))["incidents"]
    assert (incident["notified"], incident["off_hours"]) == ([], ["ops"])
    assert "ops: outside its hours" in by_day("status", code=3)


def load_alerts_of(tables):
    return load_alerts(str(tables.parent / "alerts.toml"))


def test_without_routes_the_process_does_not_start(alert, tmp_path):
    (tmp_path / "alerts.toml").write_text("")
    with pytest.raises(UserError, match="No routes are configured"):
        alert("run")
