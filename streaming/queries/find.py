"""Find queues of all groups by a part of their name, or of the id of a client that owned them in a period."""

from streaming.base.statements import statements_of
from streaming.queries.results import Interval
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


def find_owned(model: ReadModel, text: str, since: int, until: int, last: int) -> list[Interval]:
    """Return who owned which queue in a period, where the queue's name or the client's id contains a text.

    Those that had not ended by the end of the period come first. Retry queues are omitted.

    Args:
        model: the tables.
        text: a part of the name or id, in any case.
        since: the begin of the period, epoch milliseconds.
        until: its end, epoch milliseconds.
        last: the maximum number of intervals.
    """
    parameters = {"text": text.lower(), "since": since, "until": until, "last": last}
    return [Interval(**row) for row in model.rows(_SQL["owned"], parameters)]
