"""A bench prints its figures beside the last ones, and keeps them for the next time."""

from tests.bench.figures import keep


def changes(table):
    return [list(column.cells) for column in table.columns]


def test_a_figure_stands_beside_the_last_one_and_replaces_it(tmp_path):
    file = tmp_path / "FIGURES.md"
    first = changes(keep("job", {"1,000 groups, events/s": 4_000.0, "of the pass": 0.2}, file=file))
    assert first[:4] == [["1,000 groups, events/s", "of the pass"], ["4,000", "0.2"], ["", ""], ["", ""]]
    keep("core", {"calls": 100}, file=file)
    second = changes(keep("job", {"1,000 groups, events/s": 5_000.0}, file=file))
    assert second[:4] == [["1,000 groups, events/s"], ["5,000"], ["4,000"], ["+25%"]]
    third = changes(keep("job", {"of the pass": 0.1, "1,000 groups, events/s": 5_500.0}, file=file, writes=False))
    assert third[2:4] == [["0.2", "5,000"], ["-50%", "+10%"]]
    assert changes(keep("job", {"1,000 groups, events/s": 5_000.0}, file=file))[3] == ["+0%"]
    assert changes(keep("core", {"calls": 110}, file=file))[2:4] == [["100"], ["+10%"]]
