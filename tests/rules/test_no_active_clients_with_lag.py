"""NO_ACTIVE_CLIENTS_WITH_LAG: a group without members has lag."""

from rebalance_model.observe.events import RpcError
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
    trace.poll(110, {"b": holding(0)}, {0: (150, 150)}, route=1)
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
    trace.tick(370)
    assert trace.incidents(NOBODY)[1:] == [(365.001, "RESOLVED", NOBODY)]  # 45 s later: its queues may yet recover


def test_growing_lag_is_a_child_of_its_cause():
    trace = abandoned(Trace(), 10)
    for n, lag in enumerate(RISING[:33]):
        trace.poll(20 + 10 * n, {}, {0: (100 + lag, 100)}, route=1)
    assert [(row.sub_cause, row.parent) for row in rows(trace, GROWTH)] == [
        ("UNASSIGNED", rows(trace, NOBODY)[0].incident_id)
    ]


def behind_a_proxy(until: float, *, stays: int = 40, **fields) -> Trace:
    """The proxy lists x for some seconds, whose commits advance until then; messages come for ever."""
    trace = Trace(**fields)
    for at in range(0, round(until) + 1, 10):
        commit = 100 + min(at, stays - 10)
        trace.poll(at, {}, {0: (200 + at, commit)}, route=1).proxy(at + 0.1, *(["x"] if at < stays else []))
    return trace


def test_the_last_client_that_a_proxy_lists_has_left():
    """Seen at 40.1; a FIFO group, too, whose blocked queue would look the same."""
    for fifo in (False, True):
        trace = behind_a_proxy(110, fifo=fifo)
        assert [one for one in trace.incidents(NOBODY) if one[1] == "OPENED"] == [(100.1, "OPENED", NOBODY)]
        found = evidence(trace, NOBODY)[0]
        assert (found["proxied_clients"], found["without_members_ms"]) == (0, 60_000)
        trace.poll(120, {}, {0: (330, 135)}, route=1).proxy(120.1, "y").poll(130, {}, {0: (330, 330)}, route=1)
        assert trace.incidents(NOBODY)[-1][1:] == ("RESOLVED", NOBODY)


def test_clients_of_a_proxy_are_forgotten_after_group_memory():
    trace = behind_a_proxy(400, policy=Policy(group_memory=300_000))
    assert [(at, what) for at, what, _ in trace.incidents(NOBODY)] == [
        (100.1, "OPENED"),
        (385.101, "RESOLVED"),
    ]


def test_a_group_that_a_restart_lost_is_forgotten_after_group_memory():
    """Its former members still ask who is in the group."""
    trace = HookTrace(policy=Policy(group_memory=300_000)).boots(0).heart_beat(1, "a").boots(100)
    for at in range(110, 800, 10):
        trace.lists(at)
    assert [what for _, what, _ in trace.incidents(NOBODY)] == ["OPENED", "RESOLVED"]


def test_another_client_within_a_minute_is_a_near_miss():
    trace = behind_a_proxy(90).poll(99, {}, {0: (310, 180)}, route=1).proxy(99.5, "y")
    for at in range(110, 200, 10):
        trace.poll(at, {}, {0: (200 + at, 100 + at)}, route=1).proxy(at + 0.1, "y")
    assert trace.incidents(NOBODY) == []


def test_commits_that_advance_show_clients_that_the_proxy_does_not_list():
    """Of a proxy that is not configured."""
    trace = behind_a_proxy(40)
    for at in range(50, 300, 10):
        trace.poll(at, {}, {0: (200 + at, 100 + at)}, route=1).proxy(at + 0.1)
    assert trace.incidents(NOBODY) == []


def test_a_proxy_that_does_not_answer_shows_nobody_leave():
    trace = behind_a_proxy(30)
    for at in range(40, 300, 10):
        trace.poll(at, {}, {0: (200 + at, 100 + at // 50)}, route=1).proxy(at + 0.1, error=RpcError(code=-2))
    assert NOBODY not in {what for _, _, what in trace.incidents(NOBODY)}


def test_clients_that_are_listed_and_consume_nothing_are_full():
    trace = Trace()
    for at in range(0, 140, 10):
        trace.poll(at, {}, {0: (200 + at, 100 + min(at, 30))}, route=1).proxy(at + 0.1, "x")
    assert [one[1:] for one in trace.incidents(NOBODY)] == [("OPENED", f"{NOBODY} NOT_POPPED")]
    assert evidence(trace, NOBODY)[0]["proxied_clients"] == 1


def test_a_fifo_queue_that_a_listed_client_blocks_is_another_incident():
    trace = Trace(fifo=True)
    for at in range(0, 200, 10):
        trace.poll(at, {}, {0: (200 + at, 100 + min(at, 30))}, route=1).proxy(at + 0.1, "x")
    assert trace.incidents(NOBODY) == []
    assert [one[2] for one in trace.incidents("ORDERED_QUEUE_STUCK")] == ["ORDERED_QUEUE_STUCK POP_BLOCKED"]
