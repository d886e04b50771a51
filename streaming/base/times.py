"""The current time, and times in the forms that users write."""

import re
import time
from datetime import UTC, datetime, timedelta

from streaming.base.errors import UserError

DAY_MS = 86_400_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_UNIT_NAMES = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_PART = re.compile(r"(\d{1,12})(ms|[smhdw])", re.ASCII)
_SPAN = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_AGO = re.compile(rf"(\d{{1,12}}|an?) ({'|'.join(_UNIT_NAMES)})s? ago", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"(yesterday|today) (\d{1,2}:\d\d(?::\d\d)?)", re.ASCII | re.IGNORECASE)
_SECONDS_FROM, _MILLISECONDS_FROM, _END = 100_000_000, 100_000_000_000, 253_402_300_800_000
"""Numbers of the years 1973 to 5138 in seconds are seconds; larger ones, up to the year 9999, are milliseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_ms() -> int:
    """Return this machine's clock; epoch milliseconds."""
    return time.time_ns() // 1_000_000


def duration_ms(text: str) -> int:
    """Parse a duration such as 90s, 30m, 2h, 1d or 1h30m; milliseconds.

    Raises:
        UserError: the text is not a duration.
    """
    if _SPAN.fullmatch(text.strip()) is None:
        raise UserError(f"Invalid duration {text!r}. Use 90s, 30m, 2h or 1d.")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))


def instant_ms(text: str, now: int) -> int:
    """Parse a point in time; epoch milliseconds.

    Forms: ISO 8601 (UTC without a zone), epoch seconds or milliseconds, a duration ago (``2h``, ``2h ago``,
    ``10 minutes ago``), ``yesterday 14:00``, ``today 14:00`` (UTC), and ``now``.

    Args:
        text: the text to parse.
        now: epoch milliseconds.

    Raises:
        UserError: the text is not a time.
    """
    time_ms = _instant_ms(text.strip(), now)
    if time_ms is None or not 0 <= time_ms < _END:
        raise UserError(
            f"Invalid time {text!r}. Use 2026-11-21T15:00 (UTC), epoch milliseconds, or a time ago such as 2h."
        )
    return time_ms


def written(time_ms: int) -> str:
    """Format a time (epoch milliseconds) as `instant_ms` reads it: ISO 8601 to the millisecond, UTC."""
    return iso(_EPOCH + timedelta(milliseconds=time_ms))


def iso(value: datetime) -> str:
    """Format a timestamp as ISO 8601, with Z for UTC, to the millisecond, or the microsecond if it has more digits."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    return value.isoformat(timespec=digits).replace("+00:00", "Z")


def _instant_ms(text: str, now: int) -> int | None:
    if text.lower() == "now":
        return now
    if _NUMBER.fullmatch(text) and (number := int(text)) >= _SECONDS_FROM:
        return number if number >= _MILLISECONDS_FROM else number * 1000
    span = text.removesuffix("ago").rstrip()
    if _SPAN.fullmatch(span):
        return now - duration_ms(span)
    if ago := _AGO.fullmatch(text):
        times = int(ago[1]) if ago[1].isdigit() else 1
        return now - times * _UNITS_MS[_UNIT_NAMES[ago[2].lower()]]
    if day := _DAY.fullmatch(text):
        date = datetime.fromtimestamp(now / 1000, UTC).date() - timedelta(days=day[1].lower() == "yesterday")
        text = f"{date}T{day[2]:0>5}" if day[2].count(":") == 1 else f"{date}T{day[2]:0>8}"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return (parsed - _EPOCH) // timedelta(milliseconds=1)
