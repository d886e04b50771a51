"""A lag that only a hook reports is a lower bound, in the series and in its line of the chart; stale is unknown."""

from itertools import pairwise

from streaming.queries.group_at import find_group
from streaming.queries.lag import lag
from streaming.serve.dashboard.charts.trends import lines_of
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import HOUR, MINUTE, NOW, gaps
from tests.support.story import Story
from tests.support.tables import append, make_tables

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

    def names(points_of_period):
        return list(lines_of(points_of_period, lambda point: point.lag, lambda point: point.lag_is_at_least))

    assert names(points[:3]) == ["Orders"]
    assert names(points) == ["Orders (in part ≥)"]
    assert names(points[3:]) == ["Orders (≥)"]


def test_a_lag_that_is_older_than_two_intervals_is_not_in_the_sum(tmp_path):
    """Both queues are reported at -40 min, one again at -35; each is stale after 10 minutes and removed after 15."""
    append(make_tables(tmp_path), gaps(NOW).taken())

    with ReadModel(tmp_path) as model:
        points = lag(model, find_group(model, "gaps-group"), NOW - HOUR, NOW)
    values = [(round((p.time - NOW) / MINUTE, 1), p.lag, p.lag_unknown, p.waiting_ms) for p in points]
    changes = [one for before, one in pairwise([(0, None, None, 0), *values]) if before[1:] != one[1:]]
    assert changes == [
        (-40, 10, 0, 5_000),
        (-35, 12, 0, 7_000),
        (-29.5, 7, 1, 7_000),
        (-24.5, None, 2, None),
        (-19.5, None, 1, None),
    ]
    assert values[-1][0] == -19
