"""Waiting time of a queue's next message: of several answers the one that holds at the instant."""

import pytest

from streaming.queries.group_at import find_group
from streaming.queries.ownership import queues
from streaming.tables import ReadModel
from tests.support.story import Story
from tests.support.tables import append, make_tables

S = 1_000
STATS, SPAN = "CONSUME_STATS", "CONSUME_TIME_SPAN"


def bound(ms: int | None, lag: int) -> dict[str, tuple]:
    return {"lag": (lag,), "waiting_ms": (ms,), "waiting_is_at_most": (bool(lag),)}


@pytest.mark.parametrize(
    ("answers", "waiting"),
    [
        ([(100, STATS, bound(0, 0))], (0, False)),
        # Nothing was ever consumed, so it is unknown for how long the first message has waited.
        ([(100, STATS, bound(0, 0)), (110, STATS, bound(None, 3))], (None, False)),
        ([(100, STATS, bound(7_000, 3))], (7_000, True)),
        ([(100, SPAN, {"waiting_ms": (900,)}), (101, STATS, bound(7_000, 3))], (900, False)),
        ([(70, SPAN, {"waiting_ms": (900,)}), (101, STATS, bound(0, 0))], (0, False)),  # the exact answer is stale
        ([(70, SPAN, {"waiting_ms": (900,)}), (101, STATS, bound(None, 3))], (900, False)),
    ],
)
def test_the_newest_answer_holds_unless_a_fresh_one_is_exact(tmp_path, answers, waiting):
    story = Story()
    story.group(50 * S, "OK")
    story.queue(50 * S)
    for time, kind, arrays in answers:
        story.progress(time * S, kind, queue_id=(0,), **arrays)
    append(make_tables(tmp_path), story.rows)

    with ReadModel(tmp_path) as model:
        [queue] = queues(model, find_group(model, "orders", at=112 * S))
    assert (queue.waiting_ms, queue.waiting_is_at_most) == waiting
