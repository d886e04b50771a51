"""The time zone in which a command reads and prints times; tables, JSON, CSV, logs and servers use UTC."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from streaming.base.errors import UserError

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
