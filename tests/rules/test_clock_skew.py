"""CLOCK_SKEW: wrong clocks of clients and brokers."""

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import RpcError
from rebalance_model.observe.group.deleted_group import GROUP_DELETED
from tests.support import trace as traces
from tests.support.hook_trace import A
from tests.support.incident_rows import rows
from tests.support.source_rounds import TWO, rounds
from tests.support.trace import START, Trace, holding


@pytest.mark.parametrize(
    ("off", "sub_cause"),
    [(-7_200_000, "BEHIND"), (7_200_000, "AHEAD"), (6_001, "AHEAD"), (-9_001, "BEHIND")],
)
def test_a_clients_wrong_clock_is_reported_after_60_s(monkeypatch, off, sub_cause):
    """At 10 its newest stamp is proved newer than its answer of 0, so at 70 it has been so for 60 s."""
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", off)
    trace = Trace()
    for n in range(9):  # its newest stamp is 1 s old, or 6 s: either end of the interval is narrowed down
        trace.poll(10 * n, {"a": holding(0, pull_age=1 + 5 * (n % 2), consume_age=9, lock_age=9)})
    assert next(t for t in trace.incidents("CLOCK_SKEW") if t[1] == "OPENED")[0] in (70, 80)
    assert {t[2] for t in trace.incidents("CLOCK_SKEW")} == {f"CLOCK_SKEW {sub_cause}"}
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "CLOCK_SKEW"]
    bounds = msgspec.json.decode(opened.evidence)
    assert (opened.severity, opened.client_id) == ("info", "a")
    assert bounds["ahead_ms_min"] <= off <= bounds["ahead_ms_max"]


@pytest.mark.parametrize("off", [0, 4_999, -4_999])
def test_a_clock_within_5_s_is_correct_and_a_timestamp_may_be_old(monkeypatch, off):
    """The client has not pulled for 25 s: its newest stamp shows nothing of its clock."""
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", off)
    trace = Trace()
    for n in range(12):
        age = 10 * (n % 4)
        trace.poll(10 * n, {"a": holding(0, pull_age=age, consume_age=age, lock_age=age)})
    assert trace.incidents("CLOCK_SKEW") == []


def test_a_corrected_clock_is_reported(monkeypatch):
    trace = Trace()
    for n in range(8):
        trace.poll(10 * n, {"a": holding(0)})
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", 0)
    for n in range(8, 11):
        age = 1 + 7 * (n % 2)
        trace.poll(10 * n, {"a": holding(0, pull_age=age, consume_age=age, lock_age=age)})
    assert [t[1] for t in trace.incidents("CLOCK_SKEW")] == ["OPENED", "RESOLVED"]


def stored(off: int, *, fresh: bool = True) -> Trace:
    """A broker whose clock is ``off`` reports when the last consumed message was stored: 2 s ago, or earlier."""
    trace = rounds(Trace(), 0)
    for at in range(10, 90, 10):
        trace.poll(at, TWO)
        now = START + 1_000 * at
        row = traces.OffsetInfo(
            mq=traces.mq(0),
            broker_offset=100 + at,
            consumer_offset=100 + at if fresh else 100,
            last_time=now - 2_000 + off,
        )
        trace._fold(traces.ConsumeStats(queues=(row,), **trace._poll(now)))
    return trace


@pytest.mark.parametrize(
    ("off", "sub_cause"), [(3_600_000, "BROKER_AHEAD"), (7_001, "BROKER_AHEAD"), (-13_001, "BROKER_BEHIND")]
)
def test_a_brokers_wrong_clock_is_reported_after_60_s(off, sub_cause):
    """Of a message stored between the questions of 0 and 10 the stamp, 2 s old, lies 8 s after the first one."""
    trace = stored(off)
    assert [t for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == [
        (70, "OPENED", f"CLOCK_SKEW {sub_cause}"),
    ]
    opened = next(e for e in trace.effects if isinstance(e, IncidentTransition) and "BROKER" in e.sub_cause)
    evidence = msgspec.json.decode(opened.evidence)
    assert (opened.subject, opened.client_id, evidence["ahead_ms_min"]) == (A, None, off - 2_000)
    trace.poll(100, {"b": holding(2, 3)})  # members come and go: that is no news of it
    assert len([t for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]]) == 1


@pytest.mark.parametrize(("off", "fresh"), [(0, True), (6_999, True), (-12_999, True), (-3_600_000, False)])
def test_a_possibly_correct_clock_and_an_old_message_are_near_misses(off, fresh):
    assert [t for t in stored(off, fresh=fresh).incidents("CLOCK_SKEW") if "BROKER" in t[2]] == []


def test_a_brokers_corrected_clock_resolves_the_incident():
    trace = stored(3_600_000)
    trace.poll(100, TWO)
    row = traces.OffsetInfo(mq=traces.mq(0), broker_offset=300, consumer_offset=300, last_time=START + 98_000)
    trace._fold(traces.ConsumeStats(queues=(row,), **trace._poll(START + 100_000)))
    assert [t[1] for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == ["OPENED"]
    trace._fold(
        traces.ConsumeStats(
            queues=(msgspec.structs.replace(row, broker_offset=301, consumer_offset=301, last_time=START + 100_500),),
            **trace._poll(START + 101_000),
        )
    )
    assert [t[1] for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == ["OPENED", "RESOLVED"]


def test_a_brokers_clock_is_no_incident_of_a_group_that_was_deleted():
    trace, no_group = stored(3_600_000), RpcError(code=26, remark="subscription group [g] does not exist")
    for at in range(100, 180, 10):
        trace.poll(at, {})
        trace._fold(traces.ConsumeStats(error=no_group, **trace._poll(START + 1_000 * at)))
    found = [row for row in rows(trace, "CLOCK_SKEW") if "BROKER" in row.sub_cause]
    assert [(row.transition, row.resolution) for row in found] == [("OPENED", None), ("RESOLVED", GROUP_DELETED)]
