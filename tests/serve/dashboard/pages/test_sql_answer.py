"""Answers that the page for SQL keeps: columns by what they hold, limits, and lines over time."""

import json

from streaming.queries.sql_process import SqlAnswer
from streaming.serve.dashboard.pages.sql import CELLS_MAX, COLUMNS_MAX, LINES_MAX, TEXT_MAX, kept, lines_of

AT = "2026-11-29T20:0{}:00Z"


def answer_of(columns, rows, **more):
    sent = {"columns": columns, "rows": rows, "cut": False} | more
    return kept(SqlAnswer(json.dumps(sent, ensure_ascii=False).encode(), len(rows)))


def test_a_column_is_of_times_numbers_or_texts():
    columns = ["time", "day", "n", "mixed", "flag", "list", "empty", "for"]
    rows = [
        [AT.format(0), "2026-11-29", 2**70, "2026-11-29", True, [1, {"a": "ü"}], None, "PT1M5S"],
        [None, None, -1.5, "x", False, None, None, None],
    ]
    answer = answer_of(columns, rows, durations=["for"])
    assert [column.kind for column in answer.columns] == ["time", "time", "number", *["text"] * 5]
    assert answer.rows[0][:5] == (1_795_982_400_000, 1_795_910_400_000, 2**70, "2026-11-29", "true")
    assert answer.rows[0][5:] == ('[1, {"a": "ü"}]', None, "1 min 5 s")
    assert answer.rows[1] == (None, None, -1.5, "x", "false", None, None, None)
    assert not answer.is_cut


def test_what_a_hostile_answer_has_too_much_of_is_not_kept():
    long = answer_of(["a", "b"], [["x" * 1_000_000, ["y" * 1_000_000]]])
    assert [len(cell) for cell in long.rows[0]] == [TEXT_MAX + 1] * 2
    wide = answer_of([f"c{n}" for n in range(1_000)], [[0] * 1_000] * 300)
    assert (len(wide.columns), len(wide.rows), wide.is_cut) == (COLUMNS_MAX, CELLS_MAX // COLUMNS_MAX, True)
    assert answer_of(["a"], [[1]], cut=True).is_cut
    assert answer_of([], []).rows == []


def test_each_number_of_each_name_is_a_line_over_the_first_time():
    rows = [[AT.format(n), group, 3, n, n * 10] for n in (2, 0, 1) for group in ("a", "b")]
    over_time = lines_of(answer_of(["time", "group", "queue_id", "lag", "wait"], rows))
    assert sorted(over_time.lines) == ["a 3 lag", "a 3 wait", "b 3 lag", "b 3 wait"]
    assert [value for _, value in over_time.lines["b 3 wait"]] == [0, 10, 20]
    assert over_time.window.until - over_time.window.since == 120_000
    assert list(lines_of(answer_of(["time", "lag"], [[AT.format(n), n] for n in range(3)])).lines) == ["lag"]


def test_there_is_no_chart_without_something_over_time():
    once = [[AT.format(n), f"incident-{n}", n] for n in range(5)]
    assert lines_of(answer_of(["opened_at", "id", "lag"], once)) is None
    assert lines_of(answer_of(["time", "seq"], [[AT.format(n), n] for n in range(3)])) is None
    assert lines_of(answer_of(["n"], [[1], [2]])) is None


def test_of_many_lines_the_highest_are_drawn():
    rows = [[AT.format(n % 2), f"group-{n // 2:02}", n] for n in range(60)]
    over_time = lines_of(answer_of(["time", "group", "lag"], rows))
    assert over_time.total == 30
    assert list(over_time.lines) == [f"group-{n}" for n in range(30 - LINES_MAX, 30)]
