"""The lines, spans and marks in the picture of a queue."""

import pytest

from streaming.queries.results import Interval, QueueHistory, QueueObservation
from streaming.serve.dashboard.charts.queue_picture import picture
from streaming.serve.dashboard.charts.queue_series import clipped, lock_ages, steps, value_at, with_bounds

END = 600_000


def seen(time, *, source="POLL", kind="CONSUME_STATS", client=None, fresh=20_000, **values):
    given = dict.fromkeys(("broker_offset", "commit_offset", "lag", "waiting_ms", "lock_at")) | {
        "lag_is_at_least": False,
        "waiting_is_at_most": False,
    }
    return QueueObservation(
        time=time, source=source, kind=kind, client_id=client, stale_at=time + fresh, **given | values
    )


def hook(time, **values):
    return seen(time, source="HOOK", kind="HOOK", fresh=120_000, **values)


def test_a_value_holds_until_the_next_one_or_until_it_is_stale():
    lines = steps([seen(0, lag=1), seen(10_000, lag=2), seen(60_000, lag=3)], lambda one: one.lag, END)

    assert lines == [[(0, 1), (10_000, 1), (10_000, 2), (30_000, 2)], [(60_000, 3), (80_000, 3)]]
    assert [value_at(lines, time) for time in (9_999, 10_000, 30_001, 70_000, 80_001)] == [1, 2, None, 3, None]


def test_a_lower_bound_is_shown_only_where_no_exact_lag_is_fresh():
    bound = {"lag_is_at_least": True}
    found = [hook(0, lag=7, **bound), seen(10_000, lag=9), hook(25_000, lag=8, **bound), hook(50_000, lag=5, **bound)]

    assert with_bounds(found, lambda one: one.lag, lambda one: one.lag_is_at_least, END) == (
        [[(10_000, 9), (30_000, 9)]],
        [[(0, 7), (10_000, 7)], [(50_000, 5), (170_000, 5)]],
    )


def test_the_age_of_a_lock_rises_and_falls_when_it_is_renewed():
    found = [hook(10_000, lock_at=5_000), hook(30_000, lock_at=25_000), hook(40_000), hook(50_000, lock_at=45_000)]

    lines = lock_ages(found, END)

    assert lines[0] == [
        (10_000, 5_000), (25_000, 20_000), (25_000, 0), (30_000, 5_000), (30_000, 5_000), (40_000, 15_000)
    ]  # fmt: skip
    assert [value_at(lines, time) for time in (20_000, 26_000, 45_000, 50_000)] == [15_000, 1_000, None, 5_000]
    assert lines[1] == [(50_000, 5_000), (50_000, 5_000)]  # it ends where the reports end
    assert value_at(lines, 50_001) is None


def test_the_age_of_a_lock_is_not_drawn_into_a_gap_between_reports():
    lines = lock_ages([hook(10_000, lock_at=5_000), hook(140_000, lock_at=5_000)], END)

    assert [value_at(lines, time) for time in (10_000, 10_001, 130_000, 140_000)] == [5_000, None, None, 135_000]


def test_without_a_hook_the_owner_tells_the_age_of_its_lock():
    found = [seen(10_000, kind="CONSUMER_RUNNING_INFO", client="a", lock_at=4_000), seen(12_000, lag=1)]
    assert lock_ages(found, END) == [[(10_000, 6_000), (10_000, 6_000)]]


def test_a_line_is_clipped_at_the_begin_of_the_period():
    assert clipped([[(0, 0.0), (10, 5.0)], [(12, 0.0), (20, 8.0), (30, 8.0)]], 16) == [
        [(16, 4.0), (20, 8.0), (30, 8.0)]
    ]


def history(**changed):
    def owned(client, begin, end, evidence="LOCK_GRANTED", end_evidence=None):
        return Interval(
            cluster="c", group="g", topic="T", broker="b", queue_id=0, client_id=client, from_time=begin, to_time=end,
            duration_ms=None, evidence=evidence, end_evidence=end_evidence, rebalance_id="",
        )  # fmt: skip

    owners = (
        owned("a@1", -5_000, 100_000, end_evidence="LEFT"),
        owned("a@2", 200_000, 300_000),
        owned("a@1", 300_000, None),
    )
    given = {
        "cluster": "c", "group": "g", "topic": "T", "broker": "b", "queue_id": 0, "since": 0, "until": END,
        "unassigned_since": None, "intervals": owners, "rebalances": (), "incidents": (),
        "observations": (seen(10_000, lag=1, broker_offset=5, commit_offset=4),),
    }  # fmt: skip
    return QueueHistory(**given | changed)


def test_the_lane_shows_owners_and_hatches_the_time_without_one():
    drawn = picture(history(), known_until=END - 60_000)

    assert [(s.client, s.left, round(s.left + s.width, 3)) for s in drawn.spans] == [
        ("a@1", 0, 16.667), (None, 16.667, 33.333), ("a@2", 33.333, 50), ("a@1", 50, 90)
    ]  # fmt: skip
    assert [(m.time, m.text) for m in drawn.marks] == [
        (100_000, "1 has lost the queue: left the group"),
        (200_000, "2 has the queue: lock granted by the broker"),
        (300_000, "2 → 1: lock granted by the broker"),
    ]


def test_a_queue_that_was_unassigned_before_the_period_begins_so():
    shown = picture(history(intervals=(), unassigned_since=-10_000), known_until=END)
    assert [(s.client, s.left, s.width) for s in shown.spans] == [(None, 0, 100)]
    assert picture(history(intervals=()), known_until=END).spans == []  # unknown: nothing is drawn


def test_values_that_are_unknown_at_an_instant_are_not_shown_as_numbers():
    assert {chart.top for chart in picture(history(observations=()), known_until=END).charts} == {""}
    first, second, *_ = picture(history(), known_until=END).rows

    assert (first.lag, first.broker_offset, first.lock_age_ms) == (None, None, None)
    assert (second.time, second.lag, second.owner) == (30_000, 1, "a@1")


@pytest.mark.parametrize(("apart", "flags"), [(2_000, 1), (60_000, 3)])
def test_marks_that_are_near_each_other_share_a_flag(apart, flags):
    one = history().intervals[0]
    owners = tuple(
        one.model_copy(update={"client_id": client, "from_time": begin, "to_time": begin + apart})
        for client, begin in (("a@1", 100_000), ("a@2", 100_000 + apart))
    )
    shown = picture(history(intervals=owners), known_until=END)
    assert (len(shown.marks), len(shown.flags), shown.marks[-1].number) == (3, flags, flags)
