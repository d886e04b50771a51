"""The columns of what people and programs did about alerts."""

from streaming.base.language import gettext, marked
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table, Tone
from streaming.queries.results import RecordedAction

_ACTIONS = {
    "ACKNOWLEDGE": marked("acknowledged"), "SILENCE": marked("silenced"), "UNSILENCE": marked("ended the silence"),
    "CLOSE": marked("closed"), "REOPEN": marked("reopened"),
}  # fmt: skip
_ACTION_RESULTS: dict[str, tuple[str, Tone]] = {
    "DONE": (marked("done"), ""),
    "REFUSED": (marked("not allowed"), "attention"),
    "FAILED": (marked("failed"), "attention"),
}  # fmt: skip


def _action_result(row: RecordedAction, _: Context) -> ColumnValue:
    text, tone = _ACTION_RESULTS[row.result]
    return ColumnValue(gettext(text), tone, row.message or "")


def _who(row: RecordedAction, _: Context) -> ColumnValue:
    """Show who did it, with what identifies the person if that says more."""
    name = row.name or row.subject
    return ColumnValue(name or gettext("someone on this machine"), "" if name else "quiet", hint=row.subject)


RECORDED_ACTION = Table(
    ResultColumn(RecordedAction, "time", "time"),
    ResultColumn(RecordedAction, "name", show=_who),
    ResultColumn(RecordedAction, "source"),
    ResultColumn(RecordedAction, "action", show=lambda a, _: gettext(_ACTIONS[a.action])),
    ResultColumn(RecordedAction, "target", wide=True),
    ResultColumn(RecordedAction, "result", show=_action_result),
    ResultColumn(RecordedAction, "detail", wide=True),
    page="time name action result source target detail",
)
