"""A column of a result as people see it: its title, description and alignment, and its text for a row.

A column takes its title and description from the field of the result (`pydantic.Field`), so the schema of the REST API
has the same.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.health import Health, Severity, WithoutOwner
from streaming.queries.results import Group, GroupClient, QueryResult

R = TypeVar("R", bound=QueryResult)

SHORT_ID = 8
"""The characters shown of an id; unique in practice, and the question for one reports if it is not."""

Tone = Literal["", "attention", "quiet", "stale", "unassigned"] | Health | Severity
Kind = Literal["text", "line", "name", "client", "time", "count", "duration"]
"""The alignment of a value and, unless the column says otherwise, its format; a line and a time are not folded."""


class Context(NamedTuple):
    """The context of a value's text, beside its row."""

    now: int
    """The instant shown as now, in epoch milliseconds."""
    without_owner: WithoutOwner = WithoutOwner.UNASSIGNED
    """The kind of a queue without a known owner; see `Group.without_owner`."""
    today: int | None = None
    """An instant of the day whose times are shown without a date, in epoch milliseconds; None: that of now."""


class ColumnValue(NamedTuple):
    """The text that a table shows of a row in one column."""

    text: str
    """The text with unit and bounds; `labels.NOT_KNOWN` if it is unknown."""
    tone: Tone = ""
    note: str = ""
    """Printed after the text, in parentheses."""
    hint: str = ""
    """The tooltip on a page."""
    time: int | None = None
    """The instant that the text is of, in epoch milliseconds."""

    def __str__(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class ResultColumn(Generic[R]):
    """A column of the rows of a result type."""

    row_type: type[R]
    name: str
    kind: Kind = "text"
    show: Callable[[R, Context], ColumnValue | str] | None = None
    """Returns what is shown of a row; by default the field of that name, formatted by its kind."""
    heading: str = ""
    """The title, if it is not that of the field."""
    made_from: tuple[str, ...] = ()
    """The fields that it is made from, if there is none of that name."""
    meaning: str = ""
    """The description, if it is not that of the field."""
    spare: bool = False
    """True if a terminal omits it if it has no known value or there is no room; see `cli.grid`."""
    wide: bool = False
    """True if it takes a line of its own on a phone."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the result type that it shows."""
        return self.made_from or (self.name,)

    @property
    def title(self) -> str:
        """The title, which a page prints as it is and the command line in lower case."""
        titled = self.row_type.model_fields[self.fields[0]].title
        title = self.heading or titled or self.name.replace("_", " ").capitalize()
        return gettext(title)

    @property
    def description(self) -> str:
        """Return what the column shows; empty if neither it nor its field has a description."""
        description = self.meaning or self.row_type.model_fields[self.fields[0]].description
        return gettext(description) if description else ""

    @property
    def is_number(self) -> bool:
        """Return whether it is aligned to the right."""
        return self.kind in {"count", "duration"}

    def value(self, row: R, context: Context) -> ColumnValue:
        """Return what is shown of a row."""
        if self.show is None:
            return plain(self.kind, getattr(row, self.name), context)
        shown = self.show(row, context)
        return ColumnValue(shown) if isinstance(shown, str) else shown


class Table(Generic[R]):
    """The columns of a result type, and those of them that the command line and the pages show, in order."""

    def __init__(self, *columns: ResultColumn[R], grid: str = "", page: str = "") -> None:
        self._columns: Mapping[str, ResultColumn[R]] = {column.name: column for column in columns}
        self.grid = tuple(map(self.__getitem__, grid.split()))
        self.page = tuple(map(self.__getitem__, page.split()))

    def __iter__(self) -> Iterator[ResultColumn[R]]:
        return iter(self._columns.values())

    def __getitem__(self, name: str) -> ResultColumn[R]:
        return self._columns[name]


def plain(kind: Kind, value: Any, context: Context) -> ColumnValue:
    """Show a value as its kind is formatted."""
    if kind == "time":
        today = context.now if context.today is None else context.today
        return ColumnValue(labels.moment(value, today), time=value)
    if kind == "count":
        return ColumnValue(labels.number(value))
    if kind == "duration":
        return ColumnValue(labels.duration(value))
    return ColumnValue(labels.NOT_KNOWN if value is None else str(value))


def counted(value: int) -> ColumnValue:
    """Show a number that should be 0."""
    return ColumnValue(labels.number(value), "attention" if value else "")


def health_value(row: Group | GroupClient, text: str) -> ColumnValue:
    """Show a health, and how old it is if it is stale; one that is unknown has its age in the reason."""
    if not row.is_stale or row.health == "UNKNOWN":
        return ColumnValue(text, row.health)
    note = gettext("stale, {age} old", age=labels.duration(row.telemetry_age_ms))
    return ColumnValue(text, "stale" if row.health == "OK" else row.health, note)


def observed(text: str, age_ms: int | None, *, is_stale: bool, bound: Literal["≥", "≤", ""] = "") -> ColumnValue:
    """Show an observed quantity: its bound, whether it is stale, and its age."""
    if text == labels.NOT_KNOWN:
        return ColumnValue(text)
    age = labels.duration(age_ms)
    note = gettext("stale, {age} old", age=age) if is_stale else ""
    return ColumnValue(f"{bound}{text}", "stale" if is_stale else "", note, gettext("observed {age} ago", age=age))


def queue_column(row_type: type[R]) -> ResultColumn[R]:
    """Return the column with the name of a queue, for a type that has topic, broker and queue_id."""

    def show(row: Any, _: Context) -> str:
        return labels.queue_name(row.topic, row.broker, row.queue_id)

    return ResultColumn(row_type, "queue", "name", show, "Queue", ("topic", "broker", "queue_id"))


def client_or_none(client: str | None) -> ColumnValue:
    """Show an owner, or that there was none."""
    return ColumnValue(gettext("unassigned"), "unassigned") if client is None else ColumnValue(client)
