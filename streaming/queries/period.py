"""The period of a question: its ends as users write them."""

from typing import NamedTuple

from streaming.base.errors import UserError
from streaming.base.language import gettext
from streaming.base.times import instant_ms, now_ms

TIME_FORMS = "ISO 8601 (default: UTC), epoch seconds or milliseconds, a time ago such as 2h, or yesterday 14:00"
"""The forms of a time in a question of a program."""
_DEFAULT_MS = 3_600_000


class Period(NamedTuple):
    """A period, in epoch milliseconds."""

    since: int
    until: int


def period_of(since: str | None, until: str | None) -> Period:
    """Return the period between two times; by default the hour before its end, and its end is now.

    Raises:
        UserError: a text is not a time, or the period ends before it begins.
    """
    now = now_ms()
    end = now if until is None else instant_ms(until, now)
    begin = end - _DEFAULT_MS if since is None else instant_ms(since, now)
    if begin > end:
        raise UserError(gettext("since is later than until: swap them."))
    return Period(begin, end)
