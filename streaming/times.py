"""Times as people write them on a command line."""

import re
from datetime import UTC, datetime

from streaming.errors import UserError

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(rf"(\d+)([{''.join(_UNITS_MS)}])")


def duration_ms(text: str) -> int:
    """A span: 90s, 30m, 2h or 1d.

    Raises:
        UserError: it is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text!r} is no span: write 90s, 30m, 2h or 1d.")
    return int(match[1]) * _UNITS_MS[match[2]]


def instant_ms(text: str, now: int) -> int:
    """An instant in epoch milliseconds: written as such, in ISO 8601 (UTC where no zone is said), or as a span ago.

    Raises:
        UserError: it is none.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    if _DURATION.fullmatch(text):
        return now - duration_ms(text)
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{text!r} is no time: write 2026-11-21T15:00 (UTC), epoch milliseconds, or a span ago as 2h."
        ) from None
    return round((said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp() * 1000)


def written(time_ms: int) -> str:
    """An instant as `instant_ms` reads it: ISO 8601 to the millisecond, UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
