"""The columns of ownership intervals and changes of owners."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, ResultColumn, Table, client_or_none, plain, queue_column
from streaming.queries.results import Interval, OwnerChange

INTERVAL = Table(
    ResultColumn(Interval, "group"),
    ResultColumn(Interval, "client_id", "client", heading="Owner"),
    queue_column(Interval),
    ResultColumn(Interval, "from_time", "time", heading="From"),
    ResultColumn(Interval, "to_time", "time", lambda i, c: (
        ColumnValue(gettext("still"), "quiet") if i.to_time is None else plain("time", i.to_time, c)), "To"),
    ResultColumn(Interval, "duration_ms", "duration", lambda i, c: labels.duration(
        (c.now if i.to_time is None else i.to_time) - i.from_time), "Duration"),
    ResultColumn(Interval, "evidence", show=lambda i, _: labels.gained(i.evidence), heading="Acquired"),
    ResultColumn(Interval, "end_evidence", show=lambda i, _: (
        "" if i.end_evidence is None else labels.lost(i.end_evidence)), heading="Lost"),
    grid="group queue from_time to_time duration_ms evidence end_evidence",
    page="queue group from_time to_time duration_ms evidence end_evidence",
)  # fmt: skip
OWNER_CHANGE = Table(
    queue_column(OwnerChange),
    ResultColumn(OwnerChange, "from_client", "client", lambda c, _: (
        ColumnValue("did not exist", "quiet") if c.is_new and c.from_client is None
        else client_or_none(c.from_client))),
    ResultColumn(OwnerChange, "to_client", "client", lambda c, _: client_or_none(c.to_client)),
    grid="queue from_client to_client",
)  # fmt: skip
