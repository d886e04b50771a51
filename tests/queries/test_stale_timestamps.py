"""Ages of locks, pulls and consumption are those of the instant, and marked when nothing has confirmed them lately."""

import pytest

from streaming.queries.columns import QUEUE
from streaming.queries.columns.column import Context
from streaming.queries.group_at import find_group
from streaming.queries.ownership import queues
from streaming.tables import ReadModel
from tests.support.story import Story
from tests.support.tables import append, make_tables

S = 1_000
MINUTE = 60 * S


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A hook and the owner report the queue at 300 s; then only the hook, until 430 s."""
    story = Story()
    story.group(100 * S, "OK")
    story.queue(100 * S)
    story.progress(
        300 * S, "CONSUMER_RUNNING_INFO", MINUTE, client_id="A", queue_id=(0,),
        lock_at=(299 * S,), pull_at=(296 * S,), consume_at=(280 * S,),
    )  # fmt: skip
    for time, lock in ((300, 290), (430, 425)):
        at = {"lock_at": (lock * S,), "pull_at": ((time - 5) * S,), "commit_at": (200 * S,)}
        story.progress(time * S, "HOOK", MINUTE, queue_id=(0,), lag=(0,), lag_is_at_least=(True,), **at)
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    append(folder, story.rows)
    with ReadModel(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("at", "lock", "pull", "consumed"),
    [
        (310, "20 s", "14 s ago", "30 s ago"),  # the hook knows when the lock was granted, the owner only roughly
        (350, "51 s", "54 s ago", "1 min 10 s ago"),  # the hook is silent: the owner may have renewed it since
        (425, "2 min 6 s (stale)", "2 min 9 s ago (stale)", "2 min 25 s ago (stale)"),
        (440, "15 s", "15 s ago", "2 min 40 s ago (stale)"),  # only the owner tells when it consumed
        (551, "2 min 6 s (stale)", "2 min 6 s ago (stale)", "4 min 31 s ago (stale)"),
        (1_100, "11 min 15 s (stale)", "11 min 15 s ago (stale)", "13 min 40 s ago (stale)"),
        (1_331, "-", "-", "-"),
    ],
)
def test_ages_count_from_the_last_report_and_are_marked_when_it_is_old(model, at, lock, pull, consumed):
    [queue] = queues(model, find_group(model, "orders", at=at * S))
    names = ("lock_age_ms", "pull_age_ms", "consume_age_ms")
    assert [str(QUEUE[name].value(queue, Context(at * S))) for name in names] == [lock, pull, consumed]
