"""A lag that only a hook reports is a lower bound, in the series and in the name of its line in the chart."""

from streaming.queries.group_at import find_group
from streaming.queries.lag import lag
from streaming.serve.dashboard.lag_chart import lines_of
from streaming.tables import ReadModel
from tests.support.tables import append, make_tables
from tests.tables.test_read_model import Story

S = 1_000


def test_a_series_says_from_when_on_it_is_a_lower_bound(tmp_path):
    story = Story()
    story.group(100 * S, "OK")
    story.progress(100 * S, queue_id=(0, 1), lag=(5, 1))
    story.progress(105 * S, "HOOK", 60 * S, queue_id=(0, 1), lag=(4, 0), lag_is_at_least=(True, True))
    append(make_tables(tmp_path), story.rows)

    with ReadModel(tmp_path) as model:
        points = lag(model, find_group(model, "orders"), 100 * S, 160 * S, slices=6)
    shown = [(point.time // S, point.lag, point.lag_is_at_least) for point in points]
    fresh, bounds = [(at, 6, False) for at in (100, 110, 120)], [(at, 4, True) for at in (130, 140, 150, 160)]
    assert shown == fresh + bounds

    def names(of):
        return list(lines_of(of, lambda point: point.lag, lambda point: point.lag_is_at_least))

    assert names(points[:3]) == ["Orders"]
    assert names(points) == ["Orders (in part ≥)"]
    assert names(points[3:]) == ["Orders (≥)"]
