"""The current time, times in the forms that users write, and the zone in which a command reads and prints them.

Tables, JSON, CSV, logs and servers use UTC.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

from streaming.base.errors import UserError
from streaming.base.language import gettext

LOCAL = "local"
"""The name of the machine's own zone."""
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII)
_zone: ContextVar[tzinfo | None] = ContextVar("zone", default=UTC)
"""None: the machine's own zone, which `datetime` knows, with its past and future offsets."""


def zone_of(name: str) -> tzinfo | None:
    """Return a zone by its name: ``local`` (None), ``UTC``, ``Asia/Shanghai`` or an offset such as ``+08:00``.

    Raises:
        UserError: there is no such zone.
    """
    if name.lower() == LOCAL:
        return None
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        if offset := _OFFSET.fullmatch(name):
            sign, hours, minutes = offset.groups()
            return timezone((1 if sign == "+" else -1) * timedelta(hours=int(hours), minutes=int(minutes or 0)))
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # a name that is no path, that is not there, or of a folder
        raise UserError(
            f"Unknown time zone {name!r}. Use local, UTC, a name such as Asia/Shanghai, or an offset such as +08:00."
        ) from None


@contextmanager
def in_zone(zone: tzinfo | None) -> Iterator[None]:
    """Read and print times in a zone."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def current() -> tzinfo | None:
    """Return the zone in which times are read and printed; None: the machine's own."""
    return _zone.get()


def clock(time_ms: int) -> datetime:
    """Return an instant (epoch milliseconds) as the date and time of the current zone."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(_zone.get())


def zone_at(time_ms: int) -> str:
    """Return the current zone's offset at an instant: ``UTC``, ``UTC+8``, ``UTC-3:30``."""
    minutes = round((clock(time_ms).utcoffset() or timedelta()).total_seconds() / 60)
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours}" + (f":{rest:02}" if rest else "")


DAY_MS = 86_400_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_UNIT_NAMES = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_PART = re.compile(r"(\d{1,12})(ms|[smhdw])", re.ASCII)
_SPAN = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_AGO = re.compile(rf"(\d{{1,12}}|an?) ({'|'.join(_UNIT_NAMES)})s? ago", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:(?P<day>yesterday|today) |(?P<month>\d{1,2})-(?P<date>\d{1,2})[ T])?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?",
    re.ASCII | re.IGNORECASE,
)
"""A time of day, perhaps with its day, as it is printed: ``15:58``, ``11-21 15:58:00``, ``yesterday 9:00``."""
_ZONE = re.compile(r"(?P<time>.*\d) ?UTC(?P<offset>[+-]\d{1,2}(?::\d\d)?)?", re.ASCII)
"""A time with its zone, as it is printed: ``15:58:00 UTC+8``."""
_SECONDS_FROM, _MILLISECONDS_FROM, _END = 100_000_000, 100_000_000_000, 253_402_300_800_000
"""Numbers of the years 1973 to 5138 in seconds are seconds; larger ones, up to the year 9999, are milliseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_ASKED_AT: ContextVar[int | None] = ContextVar("asked_at", default=None)


def now_ms() -> int:
    """Return this machine's clock, or the instant at which it was read for `one_now`; epoch milliseconds."""
    asked_at = _ASKED_AT.get()
    return time.time_ns() // 1_000_000 if asked_at is None else asked_at


def monotonic_ms() -> int:
    """Return a clock that nobody sets; milliseconds since an unknown time."""
    return time.monotonic_ns() // 1_000_000


@contextmanager
def one_now() -> Iterator[None]:
    """Let `now_ms` return the same instant until the end: all ages of one answer are of one instant."""
    token = _ASKED_AT.set(time.time_ns() // 1_000_000)
    try:
        yield
    finally:
        _ASKED_AT.reset(token)


def duration_ms(text: str) -> int:
    """Parse a duration such as 90s, 30m, 2h, 1d or 1h30m; milliseconds.

    Raises:
        UserError: the text is not a duration.
    """
    if _SPAN.fullmatch(text.strip()) is None:
        raise UserError(f"Invalid duration {text!r}. Use 90s, 30m, 2h or 1d.")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))


def instant_ms(text: str, now: int, zone: tzinfo | None = UTC) -> int:
    """Parse a point in time; epoch milliseconds.

    Forms: ISO 8601, epoch seconds or milliseconds, a duration ago (``2h``, ``2h ago``, ``10 minutes ago``), ``now``,
    and times of a clock: ``15:58``, ``11-21 15:58:00`` (the last time that a clock showed it), ``yesterday 9:00``. A
    time that names no zone is of ``zone``; None is the machine's own.

    Raises:
        UserError: the text is not a time.
    """
    try:
        time_ms = _instant_ms(text.strip(), now, zone)
    except (ValueError, OverflowError):  # no such day or hour; a year that no clock has
        time_ms = None
    if time_ms is None or not 0 <= time_ms < _END:
        raise UserError(
            gettext(
                "Invalid time {text}. Use 15:58, 2026-11-21 15:58:00, 2026-11-21T15:58Z (UTC), epoch milliseconds, or "
                "a time ago such as 2h.",
                text=repr(text),
            )
        )
    return time_ms


def written(time_ms: int) -> str:
    """Format a time (epoch milliseconds) as `instant_ms` reads it: ISO 8601 to the millisecond, UTC."""
    return iso(_EPOCH + timedelta(milliseconds=time_ms))


def iso(value: datetime) -> str:
    """Format a timestamp as ISO 8601, with Z for UTC, to the millisecond, or the microsecond if it has more digits."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    return value.isoformat(timespec=digits).replace("+00:00", "Z")


def _instant_ms(text: str, now: int, zone: tzinfo | None) -> int | None:
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
    if said := _ZONE.fullmatch(text):
        text, zone = said["time"], zone_of(said["offset"] or "UTC")
    if clock := _CLOCK.fullmatch(text):
        return _last_shown(clock, now, zone)
    return _epoch_ms(datetime.fromisoformat(text), zone)


def _last_shown(clock: re.Match[str], now: int, zone: tzinfo | None) -> int | None:
    """Return the last time that a clock of the zone showed this."""
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).date()
    micros = int((clock["fraction"] or "").ljust(6, "0"))
    hour, minute, second = (int(clock[part] or 0) for part in ("hour", "minute", "second"))
    shown_time = time_of_day(hour, minute, second, micros)

    def on(day: date) -> int:
        return _epoch_ms(datetime.combine(day, shown_time), zone)

    if clock["day"]:
        return on(today - timedelta(days=clock["day"].lower() == "yesterday"))
    if clock["month"] is None:
        moment = on(today)
        return moment if moment <= now else on(today - timedelta(days=1))
    month, day = int(clock["month"]), int(clock["date"])
    years = (year for year in range(today.year, today.year - 9, -1) if _exists(year, month, day))
    return next((shown for year in years if (shown := on(date(year, month, day))) <= now), None)


def _exists(year: int, month: int, day: int) -> bool:
    """Return whether the year has the day: 29 February may be up to eight years ago."""
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _epoch_ms(parsed: datetime, zone: tzinfo | None) -> int:
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone) if zone is not None else parsed.astimezone()
    return (parsed - _EPOCH) // timedelta(milliseconds=1)
