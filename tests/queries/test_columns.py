"""A column is described once: grid and page take title, alignment and text from it."""

import re
from collections import defaultdict
from io import StringIO

import pytest
from markupsafe import Markup
from rich.console import Console

from streaming.cli.grid import Grid
from streaming.queries import columns
from streaming.queries.columns import GROUP, INCIDENT, MOVE, QUEUE, REBALANCE
from streaming.queries.columns.column import Context, Table
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups
from streaming.queries.incidents import incidents
from streaming.queries.labels import NOT_KNOWN
from streaming.queries.ownership import queues
from streaming.queries.rebalances import rebalances
from streaming.queries.results import RebalanceMove
from streaming.serve.dashboard.pages.home import ORDERS, GroupFilters
from streaming.serve.dashboard.parts.markup import rendered
from tests.support.asked import END

TABLES = {name: table for name, table in vars(columns).items() if isinstance(table, Table)}
CONTEXT = Context(END)
PAGED = {"at": None, "page": 0, "pages": 1, "now": END, "colours": {}, "short": {}}


@pytest.fixture(scope="module")
def model(asked_model):
    return asked_model


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_column_names_fields_of_its_result(table):
    fields = {*table.grid, *table.page}

    assert fields
    for column in fields:
        assert set(column.fields) <= set(column.row_type.model_fields), column.name
        assert column.title
    for place in (table.grid, table.page):
        assert len({column.title for column in place}) == len(place)


def html(template: str, **values: object) -> list[list[str]]:
    """Return the cells of a page's table as plain text, the titles first."""
    markup = re.sub(r"<svg.*?</svg>", "", rendered(template, **PAGED | values), flags=re.DOTALL)
    rows = re.findall(r"<tr.*?</tr>", markup, re.DOTALL)
    return [
        [" ".join(Markup(cell).striptags().split()) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)]
        for row in rows
    ]


def grid(described, rows) -> str:
    out = StringIO()
    Console(file=out, width=1_000, highlight=False).print(Grid.of(described, rows, CONTEXT))
    return out.getvalue()


OF_QUEUES = {"columns": QUEUE.page, "nothing": "", "text": "", "owners": defaultdict(list)}
OF_GROUPS = {
    "columns": GROUP.page,
    "filters": GroupFilters(),
    "orders": ORDERS,
    "span": None,
    "sparklines": defaultdict(type(None)),
    "slice_ms": 1,
}
ASKED = {
    "queues": (QUEUE, lambda m: queues(m, find_group(m, "g", at=END)), "group_queues", OF_QUEUES, set()),
    "rebalances": (REBALANCE, lambda m: rebalances(m, find_group(m, "g")), "group_rebalances", {}, set()),
    "incidents": (INCIDENT, incidents, "group_past_incidents", {}, {"title", "duration"}),
    "groups": (GROUP, groups, "home_groups", OF_GROUPS, {"group", "incidents", "lag"}),
}
"""A table, its rows, the page's template, and the columns whose cells are richer than their text there."""


@pytest.mark.parametrize(("table", "question", "template", "values", "richer"), ASKED.values(), ids=ASKED)
def test_grid_and_page_show_the_same_titles_and_texts(model, table, question, template, values, richer):
    rows = question(model)
    titles, *cells = html(template, **{template.rpartition("_")[2]: rows, "total": len(rows)} | values)
    assert titles == [column.title for column in table.page]
    printed = grid([column for column in table.page if column.name not in richer], rows).splitlines()

    for row, shown, line in zip(rows, cells, printed[1:], strict=True):
        for column, cell in zip(table.page, shown, strict=True):
            text = str(column.value(row, CONTEXT))
            if column.name not in richer:
                assert cell.replace("\u202f", ",").startswith("unknown" if text == NOT_KNOWN else text), column.name
                assert text in line


@pytest.mark.parametrize(
    ("estimate", "least", "most", "text"),
    [
        (7, 0, 65, "7 (0 to 65)"),
        (7, 7, 7, "7"),
        (None, 0, 110, "0 to 110"),
        (None, 5, None, "at least 5"),
        (None, None, None, "-"),
    ],
)
def test_duplicates_are_shown_as_an_estimate_with_bounds(estimate, least, most, text):
    move = RebalanceMove(
        topic="T", broker="b", queue_id=0, from_client="a", to_client="b", kind="MOVED",
        pause_ms=0, pause_is_at_most=False,
        reconsumed=estimate, reconsumed_min=least, reconsumed_max=most,
    )  # fmt: skip

    assert str(MOVE["reconsumed"].value(move, CONTEXT)) == text
