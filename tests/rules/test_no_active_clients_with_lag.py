"""NO_ACTIVE_CLIENTS_WITH_LAG: a group without members has lag."""

from rebalance_model.observe.policy import Policy
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence, rows, transitions_of
from tests.support.trace import Trace, holding

GROWTH = "LAG_GROWTH"
RISING = list(range(5, 200, 5))

NOBODY = "NO_ACTIVE_CLIENTS_WITH_LAG"


def abandoned(trace: Trace, until: float, offsets: tuple[int, int] | None = (150, 100)) -> Trace:
    """Members until 10; none from 20 on."""
    for n in range(2):
        trace.poll(10 * n, {"a": holding(0)}, {0: (100, 100)}, route=1)
    for at in range(20, round(until) + 1, 10):
        trace.poll(at, {}, {0: offsets} if offsets else None, route=1)
    return trace


def test_messages_wait_for_a_group_without_members():
    """The last member went at 20, as polls see it; from 80 on it is too long."""
    trace = abandoned(Trace(), 100)
    assert trace.incidents(NOBODY) == [(80, "OPENED", NOBODY)]
    assert rows(trace, NOBODY)[0].severity == "critical"
    assert evidence(trace, NOBODY)[0] == {
        "lag": 50, "members": 0, "without_members_ms": 60_000, "limit_ms": 60_000,
    }  # fmt: skip
    trace.poll(110, {"b": holding(0)}, {0: (150, 100)}, route=1)
    assert trace.incidents(NOBODY)[1:] == [(110, "RESOLVED", NOBODY)]


def test_a_restart_within_a_minute_is_a_near_miss():
    trace = abandoned(Trace(), 70).poll(79, {"a": holding(0)}, {0: (150, 100)}, route=1)
    assert trace.incidents(NOBODY) == []


def test_the_incident_opens_when_the_group_first_has_lag():
    trace = abandoned(Trace(), 200, (100, 100))
    assert trace.incidents(NOBODY) == []
    trace.poll(210, {}, {0: (101, 100)}, route=1)
    assert trace.incidents(NOBODY) == [(210, "OPENED", NOBODY)]


def test_a_group_that_never_had_a_member_is_not_judged():
    trace = Trace()
    for n in range(20):
        trace.poll(10 * n, {}, {0: (100, 50)}, route=1)
    assert trace.incidents(NOBODY) == []


def test_hooks_alone_do_not_show_the_groups_lag():
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).pulls(3, "a", 0, offset=5, commit=5).leaves(4, "a")
    assert transitions_of(trace.passes(300), NOBODY) == []


def test_a_group_is_forgotten_after_group_memory():
    trace = abandoned(Trace(policy=Policy(group_memory=300_000)), 100)
    trace.tick(330)
    assert trace.incidents(NOBODY)[1:] == [(320.001, "RESOLVED", NOBODY)]


def test_growing_lag_is_a_child_of_its_cause():
    trace = abandoned(Trace(), 10)
    for n, lag in enumerate(RISING[:33]):
        trace.poll(20 + 10 * n, {}, {0: (100 + lag, 100)}, route=1)
    assert [(row.sub_cause, row.parent) for row in rows(trace, GROWTH)] == [
        ("UNASSIGNED", rows(trace, NOBODY)[0].incident_id)
    ]
