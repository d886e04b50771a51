"""LAG_GROWTH: lag that has grown for a window."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.policy import Policy
from tests.support.hook_trace import A
from tests.support.incident_rows import evidence, rows
from tests.support.trace import START, TOPIC, Member, Trace, holding

GROWTH = "LAG_GROWTH"
RISING = list(range(5, 200, 5))


def lags(trace: Trace, start: float, lag: list[int], *, pace: int = 100, **members: Member) -> Trace:
    """Rounds with this lag of queue 0; ``lag_trend`` messages are produced between two."""
    for n, queue_lag in enumerate(lag):
        at = start + 10 * n
        broker = 10_000 + round(at) * pace // 10
        trace.poll(at, members or {"a": holding(0)}, {0: (broker, broker - queue_lag)}, route=1)
    return trace


def test_lag_that_has_not_fallen_for_a_window_and_has_grown():
    """No fixed number defines a high lag: it was 5 at 0, and has grown at each answer since."""
    trace = lags(Trace(), 0, RISING)
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH UNDETERMINED")]
    assert rows(trace, GROWTH)[0].severity == "warning"
    assert evidence(trace, GROWTH)[0] == {
        "owner": "a", "lag": 155, "grown_from": 5, "rising_ms": 300_000, "window_ms": 300_000,
        "produced_per_hour": 36_000, "consumed_per_hour": 34_200,
        "usually_produced_per_hour": None, "usually_consumed_per_hour": None,
    }  # fmt: skip
    lags(trace, 390, [150])
    assert trace.incidents(GROWTH)[1:] == [(390, "RESOLVED", "LAG_GROWTH UNDETERMINED")]


@pytest.mark.parametrize(
    "lag",
    [
        [*RISING[:20], 90, *RISING[20:]],  # it fell once, at 200
        [7] * 45,  # it stands: what is produced is consumed
        [3, *[4] * 45],  # one step up, and it stands
        [0, 0, 1, 0] * 12,
        [0, *[1] * 7, *RISING[:27]],  # from the simulation, seed 2228: until 70 all that waited was consumed each time
    ],
)
def test_lag_that_is_not_growing(lag: list[int]):
    assert lags(Trace(), 0, lag).incidents(GROWTH) == []


def test_lag_that_stands_while_its_messages_wait_keeps_growing():
    """Of a slow producer: a message comes every 40 s, and none is consumed."""
    trace = Trace()
    for n in range(40):
        trace.poll(10 * n, {"a": holding(0)}, {0: (100 + n // 4, 100)}, route=1)
    assert [one[:2] for one in trace.incidents(GROWTH)] == [(330, "OPENED")]


def test_a_rise_after_lag_stood_for_long_is_another_one():
    """Two messages wait for 90 s, longer than a quarter of the window, before another one comes every 10 s."""
    trace = Trace()
    for n in range(45):
        trace.poll(10 * n, {"a": holding(0)}, {0: (101 + min(n, 1) + max(0, n - 10), 100)}, route=1)
    assert [one[:2] for one in trace.incidents(GROWTH)] == [(410, "OPENED")]


@pytest.mark.parametrize(
    ("pace", "lag", "why"),
    [
        (180, [80 * n for n in range(40)], "PRODUCED_FASTER"),  # consumed as ever, produced half as much again
        (100, [60 * n for n in range(40)], "CONSUMED_SLOWER"),
        (100, [100 * n for n in range(40)], "CONSUMED_SLOWER"),  # not at all
    ],
)
def test_growth_is_attributed_to_the_rate_that_deviates_more(pace: int, lag: list[int], why: str):
    trace = Trace()
    lags(trace, 0, [2] * 40)  # 100 messages a round, for more than a window
    start = 400
    for n, one in enumerate(lag):
        broker = 10_000 + 3_900 + 100 + n * pace
        trace.poll(start + 10 * n, {"a": holding(0)}, {0: (broker, broker - 2 - one)}, route=1)
    assert trace.incidents(GROWTH) == [(700, "OPENED", f"LAG_GROWTH {why}")]
    assert evidence(trace, GROWTH)[0]["usually_produced_per_hour"] == 36_000


def test_growing_lag_of_an_unassigned_and_of_a_moving_queue():
    trace = lags(Trace(), 0, RISING[:31], a=Member())
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH UNASSIGNED")]
    trace = lags(Trace(policy=Policy(rebalance_settle_after=900_000)), 0, RISING[:6])
    lags(trace, 60, RISING[6:31], a=Member())
    assert trace.incidents(GROWTH) == [(300, "OPENED", "LAG_GROWTH REBALANCE_PAUSE")]


def test_a_gap_restarts_the_window_and_keeps_the_usual_rates():
    trace = lags(Trace(), 0, [2] * 40)
    lags(trace, 400, RISING[:15])
    lags(trace, 640, RISING[15:31])  # a hole of 100 s: the window begins at 640
    assert trace.incidents(GROWTH) == []
    pace = trace.state.queues[MessageQueue(TOPIC, A, 0)].lag_trend
    assert pace is not None
    assert (pace.rising_since, pace.produced) == (START + 640_000, 36_000)


def test_a_long_rise_does_not_set_the_usual_rate():
    trace = lags(Trace(), 0, [2] * 40)
    lags(trace, 400, [*RISING, 1])
    pace = trace.state.queues[MessageQueue(TOPIC, A, 0)].lag_trend
    assert pace is not None
    assert (pace.at, pace.consumed) == (START + 790_000, 36_000)


def test_a_queue_whose_commit_was_never_seen_has_no_rates():
    trace = Trace()
    for n in range(40):
        trace.poll(10 * n, {"a": holding(0)}, {0: (50 + n, 0)}, route=1)
    assert trace.incidents(GROWTH) == []
