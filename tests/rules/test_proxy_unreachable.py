"""PROXY_UNREACHABLE: one incident of the cluster for a proxy that is down, and the parent of those of its groups."""

import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.engine.sources import TimelineState
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import DEADLINE, ProxyStatus, RpcError
from rebalance_model.observe.rules import proxy_unreachable
from rebalance_model.observe.state.clocks import Clocks
from tests.support.trace import PROXY, START, Trace

MINE, NOBODY = "PROXY_UNREACHABLE", "NO_ACTIVE_CLIENTS_WITH_LAG"
LATE = RpcError(code=DEADLINE, remark="no answer")


def rounds(trace: Trace, begin: int, end: int, *clients: str, error: RpcError | None = None, stated: bool = True):
    """Rounds of a gRPC group: while its proxy answers, what comes is consumed; else it waits."""
    for at in range(begin, end, 10):
        newest = 100 + at
        trace.commit = getattr(trace, "commit", 0) if error is not None or not clients else newest
        trace.poll(at, {}, dict.fromkeys(range(4), (newest, trace.commit)))
        if stated:
            now = START + at * 1_000 + 50
            common = trace._of_collector(now)
            trace._observe(ProxyStatus(proxy=PROXY, asked=now - 40, answered=now, error=error, **common))
        trace.proxy(at + 0.1, *clients, error=error)
    return trace


def opened(trace: Trace) -> list[tuple[str, bool]]:
    """Return each incident, and whether another one explains it."""
    found = [one for one in trace.effects if isinstance(one, IncidentTransition) and one.code != "CLOCK_SKEW"]
    return [(one.code, one.absorbed) for one in found if one.transition == "OPENED"]


@pytest.mark.parametrize("stated", [True, False])
def test_a_proxy_that_is_down_is_one_incident_and_explains_the_others(stated):
    trace = rounds(Trace(), 0, 100, "x", "y", stated=stated)
    rounds(trace, 100, 330, error=LATE, stated=stated)
    assert opened(trace) == [(MINE, False), (NOBODY, True)]
    [first] = [one for one in trace.effects if isinstance(one, IncidentTransition) and one.code == MINE]
    assert (first.group, first.subject, first.severity) == ("", PROXY, "critical")
    assert 110 <= (first.time - START) / 1_000 <= 111
    last = [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1]
    assert (last.health, last.health_reason) == ("BAD", MINE)


def test_clients_that_come_back_with_it_leave_nothing_open():
    trace = rounds(Trace(), 0, 100, "x")
    rounds(rounds(trace, 100, 200, error=LATE), 200, 330, "x")
    assert {one.absorbed for one in trace.effects if isinstance(one, IncidentTransition) and one.code == NOBODY} == {
        True
    }
    assert trace.cluster.incidents == {}
    assert not [key for key in trace.state.incidents if key.code == NOBODY]


def test_clients_that_do_not_come_back_with_it_are_said():
    trace = rounds(Trace(), 0, 100, "x")
    rounds(rounds(trace, 100, 200, error=LATE), 200, 400)
    assert trace.cluster.incidents == {}
    [left] = [one for one in trace.state.incidents.values() if one.code == NOBODY]
    assert not left.absorbed


@pytest.mark.parametrize("error", [RpcError(code=1, remark="refused"), None])
def test_an_error_code_is_an_answer_and_one_round_is_too_few(error):
    trace = rounds(rounds(Trace(), 0, 100, "x"), 100, 110, error=LATE)
    assert opened(rounds(trace, 110, 150, *(() if error else ("x",)), error=error)) == []


def test_another_groups_requests_in_the_same_round_count_once():
    trace = rounds(Trace(), 0, 100, "x", stated=False)
    for part in range(5):
        trace.proxy(100 + part, error=LATE)
    assert opened(trace) == []


def test_if_another_proxy_lists_the_clients_no_group_is_bad():
    trace = rounds(Trace(), 0, 100, "x", stated=False)
    for at in range(100, 200, 10):
        trace.proxy(at + 0.2, "x", address="proxy-2:8080")
        trace.proxy(at + 0.3, error=LATE)
    assert opened(trace) == [(MINE, False)]
    assert [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1].health == "OK"


def test_it_explains_nothing_of_a_group_that_it_has_never_listed():
    trace = rounds(rounds(Trace(), 0, 100), 100, 200, error=LATE)
    assert (NOBODY, True) not in opened(trace)
    assert [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1].health != "BAD"


def test_in_a_shard_that_writes_no_rows_of_the_cluster_it_explains_nothing():
    """An incident of each shard's own would be a parent that no table has."""
    trace = Trace()
    trace.timeline = Timeline(TimelineState(), trace.stored, trace.policy, Clocks(), writes_cluster=False)
    rounds(rounds(trace, 0, 100, "x", stated=False), 100, 330, error=LATE, stated=False)
    assert trace.cluster.incidents == {}
    assert (MINE, False) not in opened(trace)


def test_no_more_proxies_are_kept_of_a_cluster_than_its_bound(monkeypatch):
    monkeypatch.setattr(proxy_unreachable, "PROXIES_MAX", 1)
    trace = rounds(Trace(), 0, 100, "x", stated=False)
    for at in range(100, 200, 10):
        trace.proxy(at, error=LATE, address="invented:8080").proxy(at + 1, error=LATE)
    assert {key.subject for key in trace.cluster.incidents} == {PROXY} == trace.cluster.proxies.keys()
