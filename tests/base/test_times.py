"""Times as people write them."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.base.errors import UserError
from streaming.base.times import duration_ms, in_zone, instant_ms, now_ms, one_now, written, zone_at, zone_of
from streaming.queries.labels import moment

NOW = 1_795_284_000_000
"""2026-11-21T18:00:00Z."""
YEAR_9999 = 253_402_300_799_999
INSTANTS = st.integers(0, YEAR_9999)


@given(INSTANTS)
def test_what_is_written_is_read_back(instant):
    assert instant_ms(written(instant), NOW) == instant


@given(st.integers(100_000_000_000, YEAR_9999))
def test_epoch_milliseconds_and_seconds_are_told_apart_by_their_size(instant):
    assert instant_ms(str(instant), NOW) == instant
    seconds = instant // 1000
    assert instant_ms(str(seconds), NOW) == (1000 * seconds if seconds < 100_000_000_000 else seconds)


@given(st.integers(0, YEAR_9999 // 1000 - 86_400), st.integers(-720, 840))
def test_a_zone_that_is_said_counts(second, minutes):
    local = datetime.fromtimestamp(second, timezone(timedelta(minutes=minutes)))
    assert instant_ms(local.isoformat(), NOW) == 1000 * second
    plain = datetime.fromtimestamp(second, UTC).replace(tzinfo=None)
    assert instant_ms(plain.isoformat(" "), NOW) == 1000 * second


@given(st.integers(0, 10_000), st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]))
def test_a_span_is_that_long_ago(number, unit):
    name, length = unit
    for said in (f"{number}{name}", f"{number}{name} ago", f" {number}{name}ago "):
        assert instant_ms(said, NOW) == NOW - number * length
    assert duration_ms(f"{number}{name}") == number * length


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-11-21T18:00:00.000Z"),
        ("2026-11-20", "2026-11-20T00:00:00.000Z"),
        ("2026-11-21T15:00", "2026-11-21T15:00:00.000Z"),
        ("2026-11-21 15:00:01.5", "2026-11-21T15:00:01.500Z"),
        ("2026-11-21T15:00+08:00", "2026-11-21T07:00:00.000Z"),
        ("1h30m", "2026-11-21T16:30:00.000Z"),
        ("1w", "2026-11-14T18:00:00.000Z"),
        ("10 minutes ago", "2026-11-21T17:50:00.000Z"),
        ("1 day ago", "2026-11-20T18:00:00.000Z"),
        ("An hour ago", "2026-11-21T17:00:00.000Z"),
        ("yesterday 14:00", "2026-11-20T14:00:00.000Z"),
        ("Today 9:05", "2026-11-21T09:05:00.000Z"),
        ("today 09:05:07", "2026-11-21T09:05:07.000Z"),
        ("15:58", "2026-11-21T15:58:00.000Z"),
        ("18:00:00.001", "2026-11-20T18:00:00.001Z"),  # later than now: yesterday
        ("11-20 15:58:00", "2026-11-20T15:58:00.000Z"),
        ("11-22 15:58", "2025-11-22T15:58:00.000Z"),
        ("2-29 12:00", "2024-02-29T12:00:00.000Z"),
        ("2026-11-20 15:58:00 UTC", "2026-11-20T15:58:00.000Z"),
        ("15:58:00 UTC+8", "2026-11-21T07:58:00.000Z"),
        ("11-21 05:58:00 UTC-3:30", "2026-11-21T09:28:00.000Z"),
    ],
)
def test_what_people_write(text, instant):
    assert written(instant_ms(text, NOW)) == instant


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-21T15:00", "2026-11-21T07:00:00.000Z"),
        ("2026-11-21T15:00Z", "2026-11-21T15:00:00.000Z"),
        ("yesterday 1:00", "2026-11-20T17:00:00.000Z"),  # there it is the 22nd, 2:00
        ("1:58", "2026-11-21T17:58:00.000Z"),
        ("2:01", "2026-11-20T18:01:00.000Z"),
        ("15:58 UTC", "2026-11-21T15:58:00.000Z"),
    ],
)
def test_a_time_without_a_zone_is_read_in_the_chosen_one(text, instant):
    assert written(instant_ms(text, NOW, zone_of("Asia/Shanghai"))) == instant


@given(st.integers(10**12, 4 * 10**12), st.sampled_from(["UTC", "Asia/Shanghai", "America/St_Johns", "+5:45"]))
def test_what_is_printed_is_read_back(time_ms, name):
    with in_zone(zone_of(name)):
        shown = f"{moment(time_ms, time_ms + 40 * 86_400_000)} {zone_at(time_ms)}"
    assert instant_ms(shown, time_ms + 40 * 86_400_000) == time_ms // 1000 * 1000


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_refused(text):
    with suppress(UserError):
        assert 0 <= instant_ms(text, NOW) <= YEAR_9999


@pytest.mark.parametrize(
    "text",
    [
        "",
        "٣h",
        "soon",
        "90",
        "yesterday",
        "yesterday 25:00",
        "2026-02-30",
        "9" * 5000,
        "9" * 15,
        "999999999999w",
        "ago",
        "2-30 12:00",
        "24:00",
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UserError, match=r"Invalid time .* Use 15:58, 2026-11-21 15:58:00"):
        instant_ms(text, NOW)


def test_an_offset_that_no_zone_has_is_refused():
    with pytest.raises(UserError, match=r"Unknown time zone '\+99'"):
        instant_ms("15:58 UTC+99", NOW)


@pytest.mark.parametrize("text", ["", "2", "2 h", "h", "2x", "-2h", "1h 30m"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(UserError, match=r"Invalid duration .* Use 90s, 30m, 2h or 1d"):
        duration_ms(text)


def test_all_ages_of_one_answer_are_of_one_instant():
    with one_now():
        first = now_ms()
        time.sleep(0.005)
        assert now_ms() == first
    assert now_ms() > first
