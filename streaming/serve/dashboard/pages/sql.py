"""The page for SQL: an editor with schema and examples beside it, and the answer as a table and a chart."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from nicegui import ui

from streaming.base.errors import UserError
from streaming.base.language import gettext, ngettext
from streaming.base.limits import SQL_CHARACTERS, SQL_QUERIES
from streaming.base.sections.web import Web
from streaming.queries import labels
from streaming.queries.group_at import group_names
from streaming.queries.incidents import kinds_of_incidents
from streaming.queries.present import history_ends
from streaming.queries.sql_help import SqlExample, SqlSchema, sql_examples, sql_schema
from streaming.queries.sql_process import SqlAnswer
from streaming.serve.dashboard.charts.trends import Lines, time_chart
from streaming.serve.dashboard.parts.frame import element, frame
from streaming.serve.dashboard.parts.markup import LiveMarkup, page_handler
from streaming.serve.dashboard.parts.moment import Window
from streaming.serve.dashboard.parts.ordering import page_of, turned
from streaming.serve.links import sql_link
from streaming.serve.operator_actions import Actor
from streaming.serve.store import Store
from streaming.serve.user import current_user
from streaming.tables import ReadModel

Kind: TypeAlias = Literal["time", "number", "text"]
Cell: TypeAlias = str | int | float | None
"""A text as it is shown, an instant in epoch milliseconds, or a number; None: null."""

CELLS_MAX = 20_000
"""The maximum number of values that are kept of an answer for its page; a file has all."""
COLUMNS_MAX = 200
TEXT_MAX = 300
"""The maximum number of characters of a value that are shown."""
LINES_MAX = 12
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?")
_IS_NAME = re.compile(r"(^|_)(id|seq|partition|level)$")
"""The names of columns whose numbers are names: no line has them as its values."""


class Column(NamedTuple):
    """A column of an answer."""

    name: str
    kind: Kind


class KeptAnswer(NamedTuple):
    """The part of an answer that is kept."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: int
    """The number of rows that were read."""
    is_cut: bool
    """True if there are more rows or columns than are kept."""
    warnings: Sequence[str]


class LinesOverTime(NamedTuple):
    """The lines of a chart."""

    lines: Lines
    total: int
    """Their number; only the highest `LINES_MAX` are kept."""
    window: Window


class _Sent(msgspec.Struct):
    """A `SqlResult` whose values are not decoded: they may be very many."""

    columns: list[str]
    rows: list[list[msgspec.Raw]]
    cut: bool
    durations: list[str] = []
    warnings: list[str] = []


def kept(answer: SqlAnswer) -> KeptAnswer:
    """Return what a page keeps of an answer."""
    sent = msgspec.json.decode(answer.content, type=_Sent)
    names = sent.columns[:COLUMNS_MAX]
    rows = sent.rows[: max(1, CELLS_MAX // max(1, len(names)))]
    made = [_column(name, [row[n] for row in rows], is_duration=name in sent.durations) for n, name in enumerate(names)]
    is_cut = sent.cut or len(rows) < len(sent.rows) or len(names) < len(sent.columns)
    values = list(zip(*(cells for _, cells in made), strict=True)) if made else []
    return KeptAnswer([column for column, _ in made], values, answer.rows, is_cut, sent.warnings)


def _column(name: str, raw: Iterable[msgspec.Raw], *, is_duration: bool) -> tuple[Column, list[Cell]]:
    cells = [_cell(one) for one in raw]
    values = [one for one in cells if one is not None]
    if is_duration:
        return Column(name, "text"), [None if one is None else labels.iso_duration(str(one)) for one in cells]
    if values and all(isinstance(one, str) and _TIME.fullmatch(one) for one in values):
        return Column(name, "time"), [None if one is None else _epoch_ms(str(one)) for one in cells]
    if values and not any(isinstance(one, str) for one in values):
        return Column(name, "number"), cells
    return Column(name, "text"), [None if one is None else str(one) for one in cells]


def _cell(raw: msgspec.Raw) -> Cell:
    """Return a value as null, a number, or a text of at most `TEXT_MAX` characters; a nested value is JSON."""
    begin = bytes(memoryview(raw)[: 4 * TEXT_MAX])
    if begin[:1] in {b"{", b"[", b"t", b"f"}:
        return _shortened(begin.decode(errors="ignore"))
    value: Cell = msgspec.json.decode(raw)
    return _shortened(value) if isinstance(value, str) else value


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _epoch_ms(text: str) -> int:
    parsed = datetime.fromisoformat(text)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def lines_of(answer: KeptAnswer) -> LinesOverTime | None:
    """Return the lines of an answer by its first column of times; None if it has none, or nothing to draw over them.

    Each column of numbers is a line; so it is for each combination of the other values, as the name of a group.
    """
    kinds = {
        kind: [n for n, column in enumerate(answer.columns) if column.kind == kind]
        for kind in ("time", "number", "text")
    }
    numbers = [n for n in kinds["number"] if not _IS_NAME.search(answer.columns[n].name)]
    if not kinds["time"] or not numbers:
        return None
    names = [*kinds["text"], *(n for n in kinds["number"] if n not in numbers)]
    lines: Lines = {}
    for row in answer.rows:
        time, of = _number(row[kinds["time"][0]]), [str(row[n]) for n in names if row[n] is not None]
        for n in numbers if time is not None else ():
            name = " ".join([*of, *([answer.columns[n].name] if len(numbers) > 1 or not of else [])])
            lines.setdefault(name, []).append([time, _number(row[n])])
    if not any(len({time for time, _ in line}) > 1 for line in lines.values()):
        return None
    highest = sorted(lines, key=lambda name: -max((value for _, value in lines[name] if value is not None), default=0))
    shown = {name: sorted(lines[name], key=lambda point: point[0] or 0) for name in sorted(highest[:LINES_MAX])}
    ends = [int(point[0] or 0) for line in shown.values() for point in (line[0], line[-1])]
    return LinesOverTime(shown, len(lines), Window(min(ends), max(ends)))


def _number(cell: Cell) -> float | None:
    return cell if isinstance(cell, int | float) else None


_ROWS = 50
_READ: Final = 1_000
"""The maximum number of rows that the page reads; a file has up to `web.sql_rows`."""
_ADDRESS_CHARACTERS = 4_000
"""Of a query that the address has."""
_THREADS = ThreadPoolExecutor(SQL_QUERIES + 1, "sql-page")
"""Threads of their own: those that the other pages ask their questions in must not wait for users' queries."""


class _Help(NamedTuple):
    """The help beside the editor."""

    schema: SqlSchema
    examples: Sequence[SqlExample]


def _asked(model: ReadModel) -> _Help:
    ends = history_ends(model)
    names = [group for group, _ in kinds_of_incidents(model) if group] or group_names(model)
    return _Help(sql_schema(model), list(sql_examples(next(iter(names), ""), ends.first, ends.last)))


class SqlPage:
    """One query at a time, by an operator, with the limits of `web.sql_seconds` and `web.sql_rows`."""

    def __init__(self, store: Store, web: Web, query: str) -> None:
        self._store, self._web = store, web
        self._query = query[:SQL_CHARACTERS]
        self._user = current_user()
        self._is_running = False
        self._answer: KeptAnswer | None = None
        self._page = 0

    async def ask(self) -> None:
        """Read the schema, and what the examples need.

        Raises:
            UserError: there are no rows yet.
        """
        self._help = await self._store.ask(_asked)

    def lay_out(self) -> None:
        """Create the page and show it; the query of an address waits for its user."""
        frame(gettext("SQL"), [(gettext("SQL"), None)])
        LiveMarkup("sql_head").show(seconds=self._web.sql_seconds)
        with element("div", "sql"):
            with element("div", "sql-main"):
                with element("section", "panel", aria_labelledby="query-title"):
                    self._lay_out_editor()
                with element("section", "panel", aria_labelledby="answer-title", id="answer"):
                    self._lay_out_answer()
            LiveMarkup("sql_schema").classes("sql-schema").show(schema=self._help.schema)
        self._show()

    def _lay_out_editor(self) -> None:
        LiveMarkup("sql_examples").show(examples=self._help.examples, user=self._user)
        with element("form", "sql-form", id="sql-form") as form:
            element(
                "textarea", "field mono", id="query", name="query", rows="9", spellcheck="false", autocomplete="off",
                aria_label=gettext("Query"), maxlength=str(SQL_CHARACTERS), data_submit="", defaultValue=self._query,
                placeholder="FROM open_incidents", translate="no",
            )  # fmt: skip
            with element("div", "sql-run"):
                self._run = element("button", "primary", type="submit")
                element("span", "quiet").text = gettext("Ctrl+Enter")
                self._status = element("span", role="status")
        form.on(
            "submit", page_handler(self._asked_for),
            js_handler="(event) => { event.preventDefault(); emit(event.target.elements.query.value); }",
        )  # fmt: skip

    def _lay_out_answer(self) -> None:
        self._head = LiveMarkup("sql_answer_head")
        self._picture = element("div", "sql-chart", role="img")
        with self._picture:
            self._chart = ui.echart({"series": []}, renderer="svg").classes("lag-chart")
        self._rows = LiveMarkup("sql_answer", on_do=self._turn)
        self._error = ""

    def _turn(self, word: str) -> None:
        self._page = turned(word)
        self._show_rows()

    async def _asked_for(self, query: object) -> None:
        """Run a query, unless one is running; its page may be closed meanwhile."""
        if self._is_running or not isinstance(query, str) or not query.strip():
            return
        self._query, self._is_running, self._page = query[:SQL_CHARACTERS], True, 0
        self._show_button()
        begun = time.monotonic()
        try:
            context = copy_context()  # with the language
            running = asyncio.get_running_loop().run_in_executor(_THREADS, context.run, self._run_query, self._query)
            self._answer, self._error = await running, ""
            self._status.text = _rows_and_time(self._answer.total, time.monotonic() - begun)
        except UserError as error:
            self._answer, self._error, self._status.text = None, str(error), ""
        finally:
            self._is_running = False
            self._show_button()
        if not self._run.client.is_deleted:
            if len(self._query) <= _ADDRESS_CHARACTERS:
                ui.navigate.history.replace(sql_link(self._query))
            self._show()

    def _run_query(self, query: str) -> KeptAnswer:
        """Return the answer of a query, with its row in the audit trail.

        Raises:
            UserError: the user is no operator, or the query is not allowed, fails, or needs too much.
        """
        user, web = self._user, self._web
        with self._store.sql_actions.recorded(Actor(user.subject, user.name, "PAGE"), query) as recording:
            user.check_operator()
            answer = self._store.sql.ask(query, timeout_s=web.sql_seconds, limit=min(_READ, web.sql_rows))
            recording.rows = answer.rows
        return kept(answer)

    def _show_button(self) -> None:
        self._run.props.update({"disabled": self._is_running or not self._user.is_operator})
        self._run.text = gettext("Running…") if self._is_running else gettext("Run")
        self._run.update()

    def _show(self) -> None:
        self._show_button()
        answer = self._answer
        lines = lines_of(answer) if answer is not None else None
        self._head.show(
            answer=answer, error=self._error, query=self._query, file_rows=self._web.sql_rows, user=self._user,
            shown_lines=None if lines is None or lines.total == len(lines.lines) else len(lines.lines),
            lines=lines and lines.total,
        )  # fmt: skip
        self._show_chart(lines)
        self._show_rows()

    def _show_chart(self, lines: LinesOverTime | None) -> None:
        self._picture.set_visibility(lines is not None)
        if lines is not None:
            label = gettext("Lines over time of: {names}", names=", ".join(lines.lines))
            self._picture.props.update({"aria-label": label})
            self._chart.options.clear()
            self._chart.options.update(time_chart(lines.lines, lines.window, are_steps=False))
            self._chart.update()

    def _show_rows(self) -> None:
        answer = self._answer
        if answer is None:
            self._rows.show(columns=(), rows=(), page=0, pages=1, total=0, is_asked=False)
            return
        listed = page_of(answer.rows, self._page, _ROWS)
        self._rows.show(columns=answer.columns, rows=listed.rows, **listed.pager, is_asked=True)


def _rows_and_time(rows: int, seconds: float) -> str:
    number = ngettext("{n} row", "{n} rows", rows, n=labels.number(rows))
    return gettext("{rows} in {duration}", rows=number, duration=labels.duration(round(seconds * 1000)))
