"""The hours of a route: the days and times of day, by the clocks of a zone, at which its channels are notified."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEK = len(DAYS)
_DAY_MINUTES = 24 * 60
_TIMES = re.compile(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)", re.ASCII)


class Times(NamedTuple):
    """A part of the day in minutes since midnight; one that ends before it begins ends on the next day."""

    begin: int
    end: int

    def __str__(self) -> str:
        """Return the form that `times` reads."""
        return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in self)


def times(text: str) -> Times:
    """Read a part of the day such as ``09:00-18:00``, or ``22:00-06:00`` until the next morning.

    Raises:
        ValueError: the text is not that, or the part is empty.
    """
    found = _TIMES.fullmatch(text.strip())
    begin, end = (int(found[at]) * 60 + int(found[at + 1]) for at in (1, 3)) if found else (0, 0)
    is_clock = found is not None and int(found[2]) < 60 and int(found[4]) < 60
    if not is_clock or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
        raise ValueError(f"invalid hours {text!r}: use 09:00-18:00, or 22:00-06:00 until the next morning")
    if begin == end:
        raise ValueError(f"the hours {text!r} are empty: omit `hours` for the whole day")
    return Times(begin, end)


def days(text: str) -> tuple[int, ...]:
    """Read a day of the week or a range of days, ``sat`` or ``mon-fri``; 0 is Monday.

    Raises:
        ValueError: the text is not that.
    """
    first, dash, last = (part.strip() for part in text.lower().partition("-"))
    last = last if dash else first
    if first not in DAYS or last not in DAYS:
        raise ValueError(f"invalid day {text!r}: use {', '.join(DAYS)}, or a range such as mon-fri")
    begin = DAYS.index(first)
    return tuple((begin + more) % _WEEK for more in range((DAYS.index(last) - begin) % _WEEK + 1))


def written_days(numbers: tuple[int, ...]) -> str:
    """Return the form that `days` reads."""
    names = DAYS[numbers[0]], DAYS[numbers[-1]]
    return "-".join(dict.fromkeys(names))


class Schedule(NamedTuple):
    """The hours in which the channels of a route are notified."""

    hours: tuple[Times, ...]
    """Parts of the day; none: the whole day."""
    days: frozenset[int]
    """Days of the week on which these parts begin; none: every day."""
    zone: tzinfo | None
    """None: the machine's own."""

    def is_active(self, now: int) -> bool:
        """Return whether a time (epoch milliseconds) is within the hours."""
        if not self.hours and not self.days:
            return True
        clock = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone)
        minute, today = clock.hour * 60 + clock.minute, clock.weekday()
        for begin, end in self._parts():
            if self._has(today) and begin <= minute < (end if begin < end else _DAY_MINUTES):
                return True
            if end < begin and minute < end and self._has((today - 1) % _WEEK):
                return True
        return False

    def begins(self, now: int) -> int:
        """Return the next time at which the hours begin, or ``now`` within them; epoch milliseconds."""
        if self.is_active(now):
            return now
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone).date()
        begins = (
            self._epoch_ms(datetime.combine(day, time(part.begin // 60, part.begin % 60)))
            for day in (today + timedelta(days=more) for more in range(_WEEK + 1))
            if self._has(day.weekday())
            for part in self._parts()
        )
        return min((begin for begin in begins if begin > now), default=now)

    def _parts(self) -> tuple[Times, ...]:
        return self.hours or (Times(0, _DAY_MINUTES),)

    def _has(self, day: int) -> bool:
        return not self.days or day in self.days

    def _epoch_ms(self, clock: datetime) -> int:
        local = clock.replace(tzinfo=self.zone) if self.zone is not None else clock.astimezone()
        return int(local.timestamp()) * 1000
