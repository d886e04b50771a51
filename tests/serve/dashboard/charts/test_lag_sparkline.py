"""The lag of each group as a line in the list of groups."""

from streaming.queries.group_at import find_group
from streaming.queries.lag import lag, lag_over
from streaming.serve.dashboard.charts.trends import HEIGHT, SPARKLINE_WIDTH, sparkline_of
from tests.serve.dashboard.tables import HOUR, NOW


def test_the_series_of_many_groups_are_those_of_each(model):
    names = [("prod", "orders-group"), ("prod", "audit-group"), ("prod", "nobody")]
    together = lag_over(model, names, NOW - HOUR, NOW, 30)

    for cluster, name in names[:2]:
        points = lag(model, find_group(model, name, cluster, NOW), NOW - HOUR, NOW, 30)
        alone = [None] * 31
        for point in points:
            if point.lag is not None:
                n = (point.time - NOW + HOUR) // (HOUR // 30)
                alone[n] = (alone[n] or 0) + point.lag
        assert any(alone), name
        assert together[cluster, name] == tuple(alone)
    assert set(together["prod", "nobody"]) == {None}


def test_a_line_ends_where_the_lag_is_unknown():
    line = sparkline_of([0, 10, None, None, 5])

    assert line.lines == [
        f"0.0,{HEIGHT - 1.5} {SPARKLINE_WIDTH / 4},1.5",
        f"{SPARKLINE_WIDTH * 7 / 8:.1f},8.0 {SPARKLINE_WIDTH}.0,8.0",
    ]
    assert line.words == "Lag in the period: first 0, last 5, at most 10"
    assert sparkline_of([None, None]) is None
