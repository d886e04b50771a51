"""The columns of retry and dead-letter topics."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, Tone, observed
from streaming.queries.results import FailedMessages


def _given_up(failed: FailedMessages, _: Context) -> ColumnValue:
    return ColumnValue(gettext("dead letters") if failed.given_up else gettext("to be tried again"))


def _failed(failed: FailedMessages, _: Context) -> ColumnValue:
    return observed(labels.number(failed.messages), failed.age_ms, is_stale=failed.is_stale)


def _added(failed: FailedMessages, _: Context) -> ColumnValue:
    if failed.added is None:
        return ColumnValue(labels.NOT_KNOWN)
    tone: Tone = "attention" if failed.added and failed.given_up else ""
    return ColumnValue(
        labels.number(failed.added),
        tone,
        gettext("in {duration}", duration=labels.duration(failed.added_ms)) if failed.added else "",
    )


FAILED_MESSAGES = Table(
    ResultColumn(FailedMessages, "given_up", "text", _given_up),
    ResultColumn(FailedMessages, "broker", "name"),
    ResultColumn(FailedMessages, "messages", "count", _failed),
    ResultColumn(FailedMessages, "added", "count", _added),
    ResultColumn(FailedMessages, "newest_at", "time", spare=True),
    ResultColumn(FailedMessages, "topic", "name", wide=True),
    grid="given_up broker messages added newest_at",
    page="given_up broker messages added newest_at topic",
)
