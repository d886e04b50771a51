"""Tables on a terminal: nothing is lost where it is narrow, and nothing is folded where it is not."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from streaming.cli.grid import Cell, Grid, GridColumn
from streaming.queries.columns import REBALANCE
from streaming.queries.columns.column import Context
from streaming.queries.results import Rebalance, RebalanceMove

WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=30)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join).map(str.strip)


def drawn(grid: Grid, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(grid, crop=False)
    return out.getvalue().splitlines()


def table(rows: list[tuple[str, ...]], *columns: GridColumn) -> Grid:
    grid = Grid([*columns])
    for row in rows:
        grid.add(*row)
    return grid


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.integers(24, 100))
def test_no_text_is_lost_and_no_line_is_too_long(rows, width):
    grid = table(rows, GridColumn("one"), GridColumn("two"))
    lines = drawn(grid, width)

    shown, wanted = "".join(lines).replace(" ", ""), "".join("".join(row) for row in rows).replace(" ", "")
    titles = [name for place, name in enumerate(("one", "two")) if any(row[place] for row in rows)]
    assert sorted(shown) == sorted(wanted + "".join(titles))
    assert all(cell_len(line) <= width and line == line.rstrip() for line in lines)
    assert grid.fits(width)


def test_names_fold_at_their_parts_and_sentences_between_words():
    grid = table([("ORDERED_QUEUE_STUCK", "no answer from 127.0.0.1@orders-3")], GridColumn("what"), GridColumn("why"))

    assert drawn(grid, 100)[1] == "ORDERED_QUEUE_STUCK  no answer from 127.0.0.1@orders-3"
    assert drawn(grid, 40)[1:] == ["ORDERED_QUEUE_STUCK  no answer from", " " * 21 + "127.0.0.1@orders-3"]
    alone = table([("ORDERED_QUEUE_STUCK",), ("127.0.0.1@orders-3",)], GridColumn("what"))
    assert drawn(alone, 14)[1:] == ["ORDERED_QUEUE_", "STUCK", "127.0.0.1@", "orders-3"]


def test_numbers_stand_right_and_are_never_folded():
    assert drawn(table([("a", "7"), ("b", "1,234")], GridColumn("q"), GridColumn("lag", right=True)), 5) == [
        "q    lag", "a      7", "b  1,234",
    ]  # fmt: skip


def test_spare_columns_go_where_there_is_no_room_the_last_first():
    columns = (GridColumn("queue"), GridColumn("since", spare=True), GridColumn("age", spare=True), GridColumn("why"))
    grid = table([("Orders@a:0", "08:00:00", "7.0 s", "OK")], *columns)

    assert drawn(grid, 80)[0].split() == ["queue", "since", "age", "why"]
    assert drawn(grid, 28)[0].split() == ["queue", "since", "why"]
    assert drawn(grid, 20)[0].split() == ["queue", "why"]


def test_columns_that_say_nothing_are_left_out():
    columns = (GridColumn("queue"), GridColumn("lock", spare=True), GridColumn("lag"), GridColumn("note"))

    assert drawn(table([("q", "-", "-", ""), ("p", "-", "-", "")], *columns), 80)[0].split() == ["queue", "lag"]
    assert drawn(table([("q", "-", "-", ""), ("p", "7", "-", "x")], *columns), 80)[0].split() == [
        "queue", "lock", "lag", "note",
    ]  # fmt: skip
    assert drawn(table([], *columns), 80)[0].split() == ["queue", "lock", "lag", "note"]
    assert drawn(table([("", "-", "", "")], *columns), 80) == []


def test_a_cell_has_its_style_on_a_terminal_only():
    grid = Grid([GridColumn("health")])
    grid.add(Cell("BAD", "bold red"))
    out = StringIO()
    Console(file=out, width=80, force_terminal=True, color_system="standard").print(grid)

    assert "\x1b[1;31mBAD\x1b[0m" in out.getvalue()
    assert drawn(grid, 80) == ["health", "BAD"]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_rebalance_keeps_its_id_at_any_width(width):
    queue = {"topic": "Orders", "broker": "broker-a", "queue_id": 0, "kind": "MOVED", "pause_is_at_most": False}
    moves = [
        RebalanceMove(
            **queue, from_client="a", to_client="b", pause_ms=pause, reconsumed=1, reconsumed_min=1, reconsumed_max=1
        )
        for pause in (2_000, 3_000, None)
    ]
    rebalance = Rebalance(
        cluster="c", group="g", rebalance_id="0123456789abcdef", start_time=0, end_time=9_000, trigger="CLIENT_JOINED",
        trigger_client="10.0.0.5@orders-1", causes=("CLIENT_JOINED x",), members_before=(), members_after=("b",),
        queues_moved=3, queues_interrupted=0, queues_unassigned=0, queues_moved_min=3, pause_ms_max=3_000,
        pause_ms_p50=2_000, pause_is_at_most=False, reconsumed=3, reconsumed_min=3, reconsumed_max=3, converged=True,
        moves=tuple(moves),
    )  # fmt: skip

    lines = drawn(Grid.of(REBALANCE.grid, [rebalance], Context(0)), width)
    assert any("01234567" in line for line in lines)
    if width == 200:
        assert "≥5 s" in lines[1]  # the pause of one queue is unknown
