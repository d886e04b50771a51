"""Tables on a terminal: nothing is lost where it is narrow, and nothing is folded where it is not."""

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from streaming.cli.grid import Cell, Column, Grid

WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=30)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join).map(str.strip)


def drawn(grid: Grid, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(grid, crop=False)
    return out.getvalue().splitlines()


def table(rows: list[tuple[str, ...]], *columns: Column) -> Grid:
    grid = Grid([*columns])
    for row in rows:
        grid.add(*row)
    return grid


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.integers(24, 100))
def test_no_text_is_lost_and_no_line_is_too_long(rows, width):
    grid = table(rows, Column("one"), Column("two"))
    lines = drawn(grid, width)

    shown, wanted = "".join(lines).replace(" ", ""), "".join("".join(row) for row in rows).replace(" ", "")
    titles = [name for place, name in enumerate(("one", "two")) if any(row[place] for row in rows)]
    assert sorted(shown) == sorted(wanted + "".join(titles))
    assert all(cell_len(line) <= width and line == line.rstrip() for line in lines)
    assert grid.fits(width)


def test_names_fold_at_their_parts_and_sentences_between_words():
    grid = table([("ORDERED_QUEUE_STUCK", "no answer from 127.0.0.1@orders-3")], Column("what"), Column("why"))

    assert drawn(grid, 100)[1] == "ORDERED_QUEUE_STUCK  no answer from 127.0.0.1@orders-3"
    assert drawn(grid, 40)[1:] == ["ORDERED_QUEUE_STUCK  no answer from", " " * 21 + "127.0.0.1@orders-3"]
    alone = table([("ORDERED_QUEUE_STUCK",), ("127.0.0.1@orders-3",)], Column("what"))
    assert drawn(alone, 14)[1:] == ["ORDERED_QUEUE_", "STUCK", "127.0.0.1@", "orders-3"]


def test_numbers_stand_right_and_are_never_folded():
    assert drawn(table([("a", "7"), ("b", "1,234")], Column("q"), Column("lag", right=True)), 5) == [
        "q    lag", "a      7", "b  1,234",
    ]  # fmt: skip


def test_spare_columns_go_where_there_is_no_room_the_last_first():
    columns = (Column("queue"), Column("since", spare=True), Column("age", spare=True), Column("why"))
    grid = table([("Orders@a:0", "08:00:00", "7.0 s", "OK")], *columns)

    assert drawn(grid, 80)[0].split() == ["queue", "since", "age", "why"]
    assert drawn(grid, 28)[0].split() == ["queue", "since", "why"]
    assert drawn(grid, 20)[0].split() == ["queue", "why"]


def test_columns_that_say_nothing_are_left_out():
    columns = (Column("queue"), Column("lock", spare=True), Column("lag"), Column("note"))

    assert drawn(table([("q", "-", "-", ""), ("p", "-", "-", "")], *columns), 80)[0].split() == ["queue", "lag"]
    assert drawn(table([("q", "-", "-", ""), ("p", "7", "-", "x")], *columns), 80)[0].split() == [
        "queue", "lock", "lag", "note",
    ]  # fmt: skip
    assert drawn(table([], *columns), 80)[0].split() == ["queue", "lock", "lag", "note"]
    assert drawn(table([("", "-", "", "")], *columns), 80) == []


def test_a_cell_has_its_style_on_a_terminal_only():
    grid = Grid([Column("health")])
    grid.add(Cell("BAD", "bold red"))
    out = StringIO()
    Console(file=out, width=80, force_terminal=True, color_system="standard").print(grid)

    assert "\x1b[1;31mBAD\x1b[0m" in out.getvalue()
    assert drawn(grid, 80) == ["health", "BAD"]
