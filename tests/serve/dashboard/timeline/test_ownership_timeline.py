"""The data of the ownership timeline."""

from streaming.queries.present import Heard, HistoryBounds
from streaming.serve.dashboard.parts.moment import window
from streaming.serve.dashboard.timeline.lane_folds import history, owner_spans
from streaming.serve.dashboard.timeline.ownership_timeline import LaneChoice, timeline_data
from tests.serve.dashboard.tables import HOUR, MINUTE, NOW


def test_the_timeline_has_a_span_for_each_owner_and_for_none(model):
    available = HistoryBounds(NOW - 2 * HOUR, Heard(NOW, NOW))
    past = history(model, "gaps-group", None, window(available, "1h", None))
    spans = owner_spans(past, available.live)
    data = timeline_data(past, spans, [], available, LaneChoice(lambda place: place[2] == 0, colours={"a@2": 0}))

    assert data["lanes"] == ["Gaps:0"]
    spans = data["spans"]
    minutes = [
        (begin // MINUTE, end // MINUTE, client) for _, begin, end, client in zip(*[iter(spans)] * 4, strict=True)
    ]
    assert minutes == [(0, 30, -1), (30, 40, 0), (40, 60, -1)]
