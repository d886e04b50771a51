"""An incident that a person closed, at an instant: open before, resolved from then on unless it is worse."""

import pytest

from schemas.rows import AlertControl
from streaming.queries.groups import groups
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import folded, incidents
from streaming.serve.alerting.follow import write_control
from streaming.tables.reader import ReadModel
from tests.support.alerting import NOW, append_transitions, transition
from tests.support.tables import append, make_tables
from tests.support.world import World

CLOSED = NOW + 1_000


@pytest.fixture
def tables(tmp_path):
    return make_tables(tmp_path / "tables")


def control(tables, name, what="CLOSE", time=CLOSED, severity="warning"):
    write_control(tables, AlertControl(
        time=time, control=what, control_id=name, cluster=None, group=None, code=None, until=None, reason="known",
        author="ann", severity=severity,
    ))  # fmt: skip


def step(what="OPENED", seq=1, name="i1", severity="warning", **fields):
    return transition(name, what, seq, severity=severity, **fields)


def resolutions(tables, at=None):
    """Return by id when each incident was resolved, and why."""
    with ReadModel(tables) as model:
        rows = model.rows("SELECT * FROM incidents_at(from_ms($at))", {"at": 2 * NOW if at is None else at})
    return {row["incident_id"]: (row["resolved_at"], row["resolution"]) for row in rows}


BY_ANN = (CLOSED, "closed by ann: known")
OPEN = (None, None)


def test_it_is_open_until_it_is_closed_and_from_when_it_is_opened_again(tables):
    append_transitions(tables, step())
    control(tables, "i1")
    control(tables, "i1", "REOPEN", time=CLOSED + 10)
    control(tables, "i1", time=CLOSED + 20)
    shown = [resolutions(tables, at)["i1"] for at in (CLOSED - 1, CLOSED, CLOSED + 10, CLOSED + 20)]
    assert shown == [OPEN, BY_ANN, OPEN, (CLOSED + 20, "closed by ann: known")]


def test_one_that_becomes_worse_is_open_while_it_is_worse(tables):
    append_transitions(
        tables,
        step(),
        step("ESCALATED", 2, severity="critical", time=CLOSED + 10),
        step("DEESCALATED", 3, time=CLOSED + 20),
    )
    control(tables, "i1")
    assert [resolutions(tables, at)["i1"] for at in (CLOSED, CLOSED + 10, CLOSED + 20)] == [BY_ANN, OPEN, BY_ANN]


def test_its_own_end_changes_nothing_later_and_counts_if_it_came_first(tables):
    append_transitions(
        tables, step(), step("RESOLVED", 2, time=CLOSED + 10, resolution="the topic no longer exists"),
        step(name="i2", seq=3), step("RESOLVED", 4, name="i2", time=CLOSED - 10),
    )  # fmt: skip
    control(tables, "i1")
    control(tables, "i2")  # its end was not in the table yet
    assert resolutions(tables) == {"i1": BY_ANN, "i2": (CLOSED - 10, None)}
    with ReadModel(tables) as model:
        detail = incident(model, "i1")
    assert detail.incident.cleared_at == CLOSED + 10
    assert [one.transition for one in detail.life] == ["OPENED", "CLOSED", "RESOLVED"]
    assert detail.incident.judged_at == detail.life[0].time


def test_what_it_absorbs_is_closed_and_open_with_it(tables):
    append_transitions(
        tables, step(name="cause"), step(name="child", seq=2, severity="critical", parent="cause"),
        step(name="later", seq=3, parent="cause", time=CLOSED + 10, opened_at=CLOSED + 10),
        step(name="other", seq=4, parent="cause", absorbed=False),  # has an alert of its own
        step("RESOLVED", 5, name="over", time=NOW + 500, parent="cause"),
    )  # fmt: skip
    control(tables, "cause")
    assert resolutions(tables) == {
        "cause": BY_ANN, "child": BY_ANN, "later": (CLOSED + 10, BY_ANN[1]), "other": OPEN, "over": (NOW + 500, None),
    }  # fmt: skip
    append_transitions(tables, step("ESCALATED", 6, name="cause", severity="critical", time=CLOSED + 20))
    assert {name for name, one in resolutions(tables).items() if one == OPEN} == {"cause", "child", "later", "other"}


def test_closed_twice_it_is_one_incident(tables):
    append_transitions(tables, step(name="cause"), step(name="child", seq=2, parent="cause"))
    for name in ("cause", "child", "child"):
        control(tables, name)
    assert resolutions(tables) == {"cause": BY_ANN, "child": BY_ANN}


def test_other_commands_close_nothing(tables):
    append_transitions(tables, step())
    for what in ("ACK", "SILENCE", "END"):
        control(tables, "i1", what)
    assert resolutions(tables) == {"i1": OPEN}


def test_a_group_counts_as_closed_what_still_holds_here_and_in_its_cluster(tables):
    world = World()
    world.group("orders", "BAD", NOW, health_reason="LAG_GROWTH")
    world.queue("orders", 0, time=NOW)
    append(tables, world.effects)
    append_transitions(
        tables, step(), step(name="child", seq=2, parent="i1"), step(name="i2", seq=3, severity="critical"),
        step(name="over", seq=4), step("RESOLVED", 5, name="over", time=CLOSED + 10),
        step(name="down", seq=6, group="", code="BROKER_UNREACHABLE", subject="b", severity="critical"),
    )  # fmt: skip
    for name in ("i1", "over"):
        control(tables, name)
    control(tables, "down", severity="critical")
    with ReadModel(tables) as model:
        [group] = groups(model, at=CLOSED + 10)
        listed = incidents(model, group="orders", only_open=True)
    assert group.incidents.model_dump() == {"critical": 1, "warning": 0, "info": 0, "closed": 2}
    assert [one.incident_id for one in folded(listed)] == ["i2"]
    assert (group.health, group.health_reason) == ("BAD", "LAG_GROWTH"), "what is observed stays"


def test_a_list_hides_no_open_incident_under_a_resolved_one(tables):
    append_transitions(
        tables, step(), step(name="child", seq=2, parent="i1"), step("RESOLVED", 3, name="i1", time=CLOSED),
    )  # fmt: skip
    with ReadModel(tables) as model:
        listed = incidents(model, group="orders")
    assert {one.incident_id for one in listed} == {"i1", "child"}
    assert {one.incident_id for one in folded(listed)} == {"i1", "child"}
