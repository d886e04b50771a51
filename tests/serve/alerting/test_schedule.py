"""The hours of a route: what they include, when they begin, and what is wrong with them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.serve.alerting.config import DAYS, Schedule, Times, days, times

QUARTER = 15 * 60_000


def at(text):
    """Return a time of 2026 in epoch milliseconds; 23 November is a Monday."""
    return int(datetime.fromisoformat(f"2026-{text}+00:00").timestamp() * 1000)


def schedule(hours="", on="", zone="UTC"):
    return Schedule(
        tuple(map(times, hours.split())),
        frozenset(day for one in on.split() for day in days(one)),
        ZoneInfo(zone),
    )


@pytest.mark.parametrize(
    ("hours", "on", "zone", "time", "begins"),
    [
        ("", "", "UTC", "11-23T03:00", "11-23T03:00"),
        ("09:00-18:00", "", "UTC", "11-23T08:59", "11-23T09:00"),
        ("09:00-18:00", "", "UTC", "11-23T09:00", "11-23T09:00"),
        ("09:00-18:00", "", "UTC", "11-23T17:59:59", "11-23T17:59:59"),
        ("09:00-18:00", "", "UTC", "11-23T18:00", "11-24T09:00"),
        ("09:00-12:00 13:00-18:00", "", "UTC", "11-23T12:30", "11-23T13:00"),
        ("09:00-24:00", "", "UTC", "11-23T23:59:59", "11-23T23:59:59"),
        ("09:00-18:00", "mon-fri", "UTC", "11-27T18:00", "11-30T09:00"),
        ("", "sat-sun", "UTC", "11-27T23:59", "11-28T00:00"),
        ("", "mon", "UTC", "11-24T00:00", "11-30T00:00"),
        ("09:00-18:00", "", "Asia/Shanghai", "11-23T00:59", "11-23T01:00"),
        ("09:00-18:00", "", "Asia/Shanghai", "11-23T10:00", "11-24T01:00"),
        ("", "mon", "Asia/Shanghai", "11-22T16:00", "11-22T16:00"),
        # until the next morning: of the day on which they begin
        ("22:00-06:00", "", "UTC", "11-23T05:59", "11-23T05:59"),
        ("22:00-06:00", "", "UTC", "11-23T06:00", "11-23T22:00"),
        ("22:00-06:00", "fri", "UTC", "11-28T05:59", "11-28T05:59"),
        ("22:00-06:00", "fri", "UTC", "11-27T05:59", "11-27T22:00"),
        ("22:00-06:00", "sun", "UTC", "11-30T05:00", "11-30T05:00"),
        # the clocks of Berlin go from 02:00 to 03:00 on 29 March, and from 03:00 back to 02:00 on 25 October
        ("09:00-18:00", "", "Europe/Berlin", "03-28T18:00", "03-29T07:00"),
        ("09:00-18:00", "", "Europe/Berlin", "10-24T18:00", "10-25T08:00"),
    ],
)
def test_hours_begin_by_the_clocks_of_their_zone(hours, on, zone, time, begins):
    one = schedule(hours, on, zone)
    assert one.begins(at(time)) == at(begins)
    assert one.is_active(at(time)) == (time == begins)


parts = st.tuples(st.integers(0, 95), st.integers(0, 96)).filter(lambda part: part[0] != part[1])


@given(
    st.lists(parts, max_size=3),
    st.sets(st.integers(0, 6), max_size=3),
    st.sampled_from(["UTC", "Asia/Shanghai", "America/St_Johns"]),
    st.integers(0, 14 * 96),
)
def test_the_next_begin_is_the_first_active_quarter_of_an_hour(hours, on, zone, quarter):
    schedule = Schedule(tuple(Times(15 * begin, 15 * end) for begin, end in hours), frozenset(on), ZoneInfo(zone))
    now = at("11-02T00:00") + quarter * QUARTER
    expected = next(time for time in range(now, now + 9 * 96 * QUARTER, QUARTER) if active(schedule, time))
    assert schedule.begins(now) == expected


def active(schedule, time):
    clock = datetime.fromtimestamp(time / 1000, UTC).astimezone(schedule.zone).replace(tzinfo=None)
    for begun in (clock.date(), clock.date() - timedelta(days=1)):
        midnight = datetime.combine(begun, datetime.min.time())
        for begin, end in schedule.hours or [(0, 1440)]:
            length = end - begin if begin < end else end - begin + 1440
            since = (clock - midnight) / timedelta(minutes=1) - begin
            if 0 <= since < length and (not schedule.days or begun.weekday() in schedule.days):
                return True
    return False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9-18", "invalid hours '9-18': use 09:00-18:00"),
        ("09:00-25:00", "invalid hours"),
        ("09:61-18:00", "invalid hours"),
        ("24:00-06:00", "invalid hours"),
        ("09:00-09:00", "are empty: omit `hours`"),
    ],
)
def test_wrong_hours_are_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        times(text)


def test_days_are_names_and_ranges():
    assert days("Sat - Mon") == (5, 6, 0)
    assert days("wed") == (2,)
    assert days("mon-sun") == tuple(range(len(DAYS)))
    with pytest.raises(ValueError, match="invalid day 'monday': use mon, tue, wed"):
        days("monday")


def test_hours_are_printed_as_they_are_read():
    assert str(times("9:00-24:00")) == "09:00-24:00"
