"""The period of a question: its ends as users write them."""

from datetime import UTC, tzinfo
from typing import NamedTuple

from streaming.base.errors import UserError
from streaming.base.language import gettext
from streaming.base.times import instant_ms, now_ms
from streaming.queries.present import present
from streaming.tables.reader import ReadModel

TIME_FORMS = "ISO 8601 (default: UTC), epoch seconds or milliseconds, a time ago such as 2h, or yesterday 14:00"
"""The forms of a time in a question of a program."""
_DEFAULT_MS = 3_600_000


class Period(NamedTuple):
    """A period, in epoch milliseconds."""

    since: int
    until: int


def period_of(model: ReadModel, since: str | None, until: str | None) -> Period:
    """Return the period between two times; by default the hour before its end, and its end is the instant shown as now.

    Raises:
        UserError: a text is not a time, or the period ends before it begins.
    """
    end = present(model, None if until is None else instant_ms(until, now_ms()))
    begin = end - _DEFAULT_MS if since is None else begin_of(model, since, end)
    if begin > end:
        raise UserError(gettext("since is later than until: swap them."))
    return Period(begin, end)


def begin_of(model: ReadModel, since: str | int | None, at: int | None, zone: tzinfo | None = UTC) -> int:
    """Return the begin of a period in epoch milliseconds; 0: the beginning of history.

    Args:
        model: the tables.
        since: as the user has written it: a time ago, such as ``1h``, is before the end of the period.
        at: the end of the period, epoch milliseconds; None: now, or the last telemetry if that has ended.
        zone: the zone of a time that names none; None is the machine's own.

    Raises:
        UserError: the text is not a time.
    """
    return 0 if since is None else instant_ms(str(since), present(model, at), zone)
