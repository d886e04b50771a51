"""The columns of what people and programs did about alerts."""

from streaming.base.language import gettext, marked, ngettext
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, Tone
from streaming.queries.results import RecordedAction

_DETAIL_CHARACTERS = 300
_ACTIONS = {
    "ACKNOWLEDGE": marked("acknowledged"), "SILENCE": marked("silenced"), "UNSILENCE": marked("ended the silence"),
    "CLOSE": marked("closed"), "REOPEN": marked("reopened"),
    "SQL": marked("ran SQL"),
}  # fmt: skip
_ACTION_RESULTS: dict[str, tuple[str, Tone]] = {
    "DONE": (marked("done"), ""),
    "REFUSED": (marked("not allowed"), "attention"),
    "FAILED": (marked("failed"), "attention"),
}  # fmt: skip


def _action_result(row: RecordedAction, _: Context) -> ColumnValue:
    text, tone = _ACTION_RESULTS[row.result]
    note = row.message or ("" if row.rows is None else ngettext("{n} row", "{n} rows", row.rows))
    return ColumnValue(gettext(text), tone, note)


def _who(row: RecordedAction, _: Context) -> ColumnValue:
    """Show who did it, with what identifies the person if that says more."""
    name = row.name or row.subject
    return ColumnValue(name or gettext("someone on this machine"), "" if name else "quiet", hint=row.subject)


def _detail(row: RecordedAction, _: Context) -> ColumnValue:
    """Show a reason, or the beginning of a query, with the whole of it."""
    if len(row.detail) <= _DETAIL_CHARACTERS:
        return ColumnValue(row.detail)
    return ColumnValue(f"{row.detail[:_DETAIL_CHARACTERS]}…", hint=row.detail)


RECORDED_ACTION = Table(
    ResultColumn(RecordedAction, "time", "time"),
    ResultColumn(RecordedAction, "name", show=_who),
    ResultColumn(RecordedAction, "source"),
    ResultColumn(RecordedAction, "action", show=lambda a, _: gettext(_ACTIONS[a.action])),
    ResultColumn(RecordedAction, "target", wide=True),
    ResultColumn(RecordedAction, "result", show=_action_result),
    ResultColumn(RecordedAction, "detail", wide=True, show=_detail),
    page="time name action result source target detail",
)
