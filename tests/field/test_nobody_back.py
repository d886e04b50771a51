"""By the hook alone, too: a group whose clients do not come back, or pop nothing any more, is never OK."""

import pytest

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.events import HeartBeat, ProxyHeartBeat, UnregisterClient
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of
from tests.support.hook_trace import HookTrace
from tests.support.pop_trace import PopTrace

AWAY = "23-broker-ip-changes-clients-five-minutes-late"
"""A broker restarts with another address (120 to 150 s); its clients are away until 450 s (rocketmq#2763, #8492)."""
SILENT = "41-proxy-restart-java-silent"
"""A proxy restarts at 120 s; its Java clients are connected, and get nothing (rocketmq#9170)."""
NOBODY = "NO_ACTIVE_CLIENTS_WITH_LAG"


def healths(conclusions, since, until):
    """Return the states of the group's health in a time, in seconds."""
    rows = [row for row in conclusions.effects if isinstance(row, GroupSnapshot)]
    before = [row for row in rows if conclusions.seconds(row) <= since][-1:]
    return {row.health for row in [*before, *(one for one in rows if since < conclusions.seconds(one) < until)]}


@pytest.mark.parametrize("source", SOURCES)
def test_since_a_restart_nobody_came_back(source):
    conclusions = concluded(AWAY, source)
    [opened] = [one for one in conclusions.transitions(NOBODY) if one.transition == "OPENED"]
    assert (opened.severity, opened.sub_cause) == ("critical", "NOT_BACK" if source == "hook" else "")
    assert 205 <= conclusions.seconds(opened) <= 260
    assert "OK" not in healths(conclusions, 196, 449)
    assert conclusions.group().health == "OK"
    assert conclusions.open_at_end() == []


def test_one_client_that_comes_back_in_time_is_a_near_miss():
    trace = HookTrace().boots(0).heart_beat(10, "a", "b").passes(100)
    trace.boots(120).heart_beat(150, "a").passes(170).heart_beat(180, "a").passes(205).heart_beat(210, "a")
    assert trace.incidents(NOBODY) == []


@pytest.mark.parametrize("clients", [("a",), ("a", "b", "c")])
def test_clients_that_unregister_after_a_restart_have_left(clients):
    trace = HookTrace().boots(0).heart_beat(10, *clients).passes(100).boots(120).heart_beat(125, *clients)
    for number, client in enumerate(clients):
        trace.leaves(130 + number, client)
    trace.passes(300)
    assert trace.incidents(NOBODY) == []
    assert [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1].health == "UNKNOWN"


def test_a_group_whose_members_are_listed_by_another_name_is_back():
    def renamed(event, at):
        """Other clients than before come back, and sooner."""
        if isinstance(event, HeartBeat | UnregisterClient) and at > 440:
            return changed(event, client_id=f"new-{event.client_id}", channel=f"9{event.channel}")
        return event

    conclusions = concluded_of(changed_events(AWAY, "hook", renamed))
    assert [one.transition for one in conclusions.transitions(NOBODY)] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize("source", ["hook", "both"])
def test_heartbeats_behind_a_proxy_and_no_pop_are_said(source):
    conclusions = concluded(SILENT, source)
    [stopped] = conclusions.transitions("POP_STOPPED")[:1]
    assert (stopped.sub_cause, stopped.transition) == ("BEHIND_PROXY", "OPENED")
    assert 140 <= conclusions.seconds(stopped) <= 170
    assert "OK" not in healths(conclusions, 150, 720)
    assert "POP_STOPPED" in {one.code for one in conclusions.open_at_end()}


def test_by_polls_alone_nobody_pops_for_it():
    conclusions = concluded(SILENT, "poll")
    assert [(one.code, one.sub_cause) for one in conclusions.open_at_end() if not one.absorbed] == [
        (NOBODY, "NOT_POPPED")
    ]


def beating(trace, begin, end, *, pops, **fields):
    for at in range(begin, end):
        if at % 10 == 0:
            trace.proxied(at + 0.1, "c", **{"consume_type": "CONSUME_PASSIVELY", **fields})
        if pops and at % 15 == 0:
            trace.pops(at + 0.2, "10.0.0.9:8080")
    return trace


def test_clients_that_pop_or_are_simple_or_gone_are_near_misses():
    assert beating(PopTrace().boots(0), 0, 200, pops=True).incidents("POP_STOPPED") == []
    simple = beating(PopTrace().boots(0), 0, 60, pops=True, consume_type="CONSUME_ACTIVELY")
    assert beating(simple, 60, 200, pops=False, consume_type="CONSUME_ACTIVELY").incidents("POP_STOPPED") == []
    gone = beating(PopTrace().boots(0), 0, 60, pops=True).proxied(61, "c", registers=False).passes(200)
    assert gone.incidents("POP_STOPPED") == []


def test_it_ends_when_they_pop_again():
    trace = beating(beating(PopTrace().boots(0), 0, 60, pops=True), 60, 120, pops=False)
    beating(trace, 120, 140, pops=True)
    assert [what for _, what, _ in trace.incidents("POP_STOPPED")] == ["OPENED", "RESOLVED"]


def test_the_heartbeats_of_the_case_are_of_push_consumers():
    events = [one for one in changed_events(SILENT, "hook") if isinstance(one, ProxyHeartBeat)]
    assert {one.consume_type for one in events} == {"CONSUME_PASSIVELY"}
