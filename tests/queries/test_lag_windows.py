"""Lag over a period of any begin and end, beside a plain calculation from the observations alone."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pytest

from schemas.questions import answer, opened, questions
from streaming.queries.group_at import find_group
from streaming.queries.lag import lag
from streaming.tables import ReadModel
from tests.support.story import COMMON, Story
from tests.support.tables import append, make_tables

S, HOUR = 1_000, 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUEUES = range(3)
MIDNIGHT = 20_000 * 24 * HOUR


class Seen(NamedTuple):
    """The lag of a queue in an answer of a broker."""

    queue: int
    time: int
    lag: int
    interval: int

    def holds(self, instant: int) -> bool:
        return self.time <= instant <= self.time + 2 * self.interval


def observations(begin: int, interval: int, seed: int) -> list[Seen]:
    """Each queue is observed every interval, at a time of its own, except in gaps, which may be long."""
    chance, seen = random.Random(seed), []
    for queue in QUEUES:
        time = begin + chance.randrange(interval)
        for _ in range(40):
            time += interval * chance.choice((1, 1, 1, 1, 2, 4))
            seen.append(Seen(queue, time, chance.choice((0, 0, 5, 70)), interval))
    return seen


def tables_of(seen: list[Seen], folder):
    story = Story()
    story.group(min(one.time for one in seen), "OK")
    for one in seen:
        story.progress(one.time, interval=one.interval, queue_id=(one.queue,), lag=(one.lag,))
    append(make_tables(folder), story.rows)
    return folder


def last_of(seen: list[Seen], instant: int) -> list[Seen]:
    """The last observation of each queue by an instant."""
    return list({one.queue: one for one in sorted(seen, key=lambda one: one.time) if one.time <= instant}.values())


def windows(begin: int, interval: int) -> list[tuple[int, int]]:
    """Periods within an interval, across some, and one whose slices do not divide it."""
    at = begin + 15 * interval
    within = [(at + interval // 10 * first, at + interval // 10 * last) for first, last in ((1, 3), (4, 6), (7, 9))]
    return [*within, (at + interval // 2, at + 5 * interval // 2), (at - 12 * interval + 7, at + 20 * interval)]


@pytest.mark.parametrize("interval", [10 * S, 20 * 60 * S])
def test_each_point_of_the_series_is_the_sum_of_what_holds(interval, tmp_path):
    seen = observations(MIDNIGHT, interval, seed=interval)
    kept = max(900 * S, 3 * interval)
    with ReadModel(tables_of(seen, tmp_path)) as model:
        group = find_group(model, COMMON["group"])
        for since, until in windows(MIDNIGHT, interval):
            points = lag(model, group, since, until, slices=7)
            assert [point.time for point in points][-1] == until
            assert len(points) == 8
            for point in points:
                there = {one.queue for one in last_of(seen, until) if one.time + kept >= point.time}  # also amid a gap
                known = [one for one in last_of(seen, point.time) if one.queue in there]
                fresh = [one.lag for one in known if one.holds(point.time)]
                expected = (sum(fresh) if fresh else None, len(known) - len(fresh))
                assert (point.lag, point.lag_unknown) == expected, (since, until, point)


def hours(seen: list[Seen], since: int, until: int) -> dict[int, tuple[float, float]]:
    """The hours with lag and those that are known, by day, counted second by second."""
    of_day: dict[int, tuple[float, float]] = {}
    for queue in QUEUES:
        of_queue = sorted((one for one in seen if one.queue == queue), key=lambda one: one.time)
        for observed, after in pairwise([*of_queue, None]):
            end = min(until, observed.time + 2 * observed.interval, *([after.time] if after else []))
            for second in range(max(since, observed.time), end, S):
                with_lag, known = of_day.get(second // (24 * HOUR), (0.0, 0.0))
                of_day[second // (24 * HOUR)] = with_lag + bool(observed.lag) / 3600, known + 1 / 3600
    return of_day


@pytest.mark.parametrize("begin", [MIDNIGHT, MIDNIGHT - 200 * S])
def test_hours_with_lag_count_from_before_the_period_and_past_midnight(begin, tmp_path):
    interval = 10 * S
    seen = [one._replace(time=one.time // S * S) for one in observations(begin, interval, seed=3)]
    connection = opened(tables_of(seen, tmp_path))
    [query] = [query for name, query in questions() if name.startswith("13")]
    for since, until in windows(begin, interval):
        first, last = since // S * S, until // S * S
        period = {name: EPOCH + timedelta(milliseconds=at) for name, at in (("since", first), ("until", last))}
        answered = {
            row["day"].toordinal() - EPOCH.toordinal(): (row["queue_hours_with_lag"] or 0, row["queue_hours_known"])
            for row in pa.table(answer(connection, query, **period)).to_pylist()
        }
        expected = hours(seen, first, last)
        assert answered.keys() == expected.keys()
        assert all(answered[day] == pytest.approx(expected[day]) for day in expected), (since, until)


def test_a_lower_bound_of_zero_is_no_known_lag(tmp_path):
    story = Story()
    story.progress(10 * S, "HOOK", queue_id=(0, 1), lag=(0, 5), lag_is_at_least=(True, True))
    append(make_tables(tmp_path), story.rows)
    [query] = [query for name, query in questions() if name.startswith("13")]
    [row] = pa.table(answer(opened(tmp_path), query, since=EPOCH, until=EPOCH + timedelta(hours=1))).to_pylist()
    assert row["queue_hours_known"] * 3600 == row["queue_hours_with_lag"] * 3600 == pytest.approx(20)
