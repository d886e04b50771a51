"""An incident that a person closes: RESOLVED once, then nothing until it is worse or opened again."""

import pytest

from schemas.rows import AlertControl
from streaming.queries.incidents import incidents
from streaming.serve.alerting.follow import write_control
from streaming.tables.reader import ReadModel
from tests.support.alerting import (
    HOUR,
    NOW,
    append_transitions,
    config,
    quiet,
    rounds,
    start,
    transition,
)


def close(tables, clock, incident="i1", control="CLOSE", severity="warning"):
    clock.forward(1_000)
    write_control(tables, AlertControl(
        time=clock.now, control=control, control_id=incident, cluster=None, group=None, code=None, until=None,
        reason="moved", author="ann", severity=severity,
    ))  # fmt: skip


def warning(what="OPENED", seq=1, incident="i1", **fields):
    return transition(incident, what, seq, **{"severity": "warning", **fields})


def keys(ops):
    return [one["key"] for message in ops.messages for one in message.alerts]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_it_is_resolved_once_and_its_own_end_is_not_sent(tables, clock, ops, restarted):
    alerting = start(tables, clock, {"ops": ops}, quiet(remind_after="1h"))
    append_transitions(tables, warning())
    rounds(alerting)
    close(tables, clock)
    if restarted:
        alerting = start(tables, clock, {"ops": ops}, quiet(remind_after="1h"))
    rounds(alerting)
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]
    assert "closed by ann: moved" in ops.messages[-1].body

    append_transitions(tables, warning("RECLASSIFIED", 2))
    rounds(alerting)
    clock.forward(3 * HOUR)
    append_transitions(tables, warning("RESOLVED", 3))
    rounds(alerting if not restarted else start(tables, clock, {"ops": ops}, quiet(remind_after="1h")))
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]


def test_one_that_becomes_worse_is_sent_again(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, warning())
    rounds(alerting)
    close(tables, clock)
    rounds(alerting)
    for step in (warning("ESCALATED", 2), warning("ESCALATED", 3, severity="critical"), warning("RESOLVED", 4)):
        append_transitions(tables, step)
        rounds(alerting)
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1"), ("OPENED", "i1"), ("RESOLVED", "i1")]
    assert len(set(keys(ops))) == len(ops.received), "a receiver may drop a message with the key of another"


def test_one_closed_at_a_severity_that_is_read_later_stays_closed(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, warning())
    rounds(alerting)
    append_transitions(tables, warning("ESCALATED", 2, severity="critical"))
    close(tables, clock, severity="critical")
    rounds(alerting)
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]


def test_what_was_closed_before_the_alerts_began_is_not_sent(tables, clock, ops):
    append_transitions(tables, warning(), warning(incident="i2", seq=2))
    close(tables, clock)
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i2")]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_one_that_is_opened_again_is_sent_again(tables, clock, ops, restarted):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, warning(), warning(incident="over", seq=2))
    rounds(alerting)
    close(tables, clock)
    close(tables, clock, "over")
    rounds(alerting)
    append_transitions(tables, warning("RESOLVED", 3, incident="over"))
    rounds(alerting)
    ops.messages.clear()

    close(tables, clock, control="REOPEN")
    close(tables, clock, "over", control="REOPEN")
    alerting = start(tables, clock, {"ops": ops}) if restarted else alerting
    rounds(alerting)
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i1")], "the other has cleared meanwhile"

    append_transitions(tables, warning("RESOLVED", 4))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "i1"), ("RESOLVED", "i1")]
    assert len(set(keys(ops))) == 2


def test_closed_and_opened_again_between_two_rounds_sends_nothing(tables, clock, ops):
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, warning())
    rounds(alerting)
    close(tables, clock)
    close(tables, clock, control="REOPEN")
    rounds(alerting)
    assert ops.received == [("OPENED", "i1")]


def test_what_a_closed_incident_absorbs_is_resolved_with_it(tables, clock, ops):
    """The child was sent before its cause was found."""
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(
        tables, warning(incident="child", seq=1), warning(incident="cause", seq=2),
        warning(incident="own", seq=3, parent="cause", absorbed=False),
    )  # fmt: skip
    rounds(alerting)
    append_transitions(tables, warning("DEESCALATED", 4, incident="child", parent="cause"))
    rounds(alerting)
    close(tables, clock, "cause")
    rounds(alerting)
    assert sorted(ops.received) == [
        ("OPENED", "cause"), ("OPENED", "child"), ("OPENED", "own"), ("RESOLVED", "cause"), ("RESOLVED", "child"),
    ]  # fmt: skip
    assert len(set(keys(ops))) == 5
    append_transitions(tables, warning("ESCALATED", 5, incident="child"))
    rounds(alerting)
    assert ops.received[5:] == [("OPENED", "child")], "it has outlived its cause"


SEVERITIES = ("info", "warning", "critical")


@pytest.mark.parametrize("at_closing", SEVERITIES)
@pytest.mark.parametrize("now", SEVERITIES)
def test_the_tables_agree_with_the_alerts(tables, clock, ops, at_closing, now):
    alerting = start(tables, clock, {"ops": ops}, config(group_wait="0s", remind_after="0s"))
    append_transitions(tables, transition(severity=at_closing))
    close(tables, clock, severity=at_closing)
    step = "ESCALATED" if SEVERITIES.index(now) > SEVERITIES.index(at_closing) else "DEESCALATED"
    append_transitions(tables, transition("i1", step, 2, severity=now))
    rounds(alerting)
    is_worse = SEVERITIES.index(now) > SEVERITIES.index(at_closing)
    assert ops.received == ([("OPENED", "i1")] if is_worse else [])
    with ReadModel(tables) as model:
        [incident] = incidents(model)
    assert incident.resolved_at == (None if is_worse else clock.now)
    assert incident.resolution == (None if is_worse else "closed by ann: moved")
    assert (incident.opened_at, incident.cleared_at) == (NOW, None)
