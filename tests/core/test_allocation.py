"""AVG and AVG_BY_CIRCLE: the worked cases of the real classes, and their properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.allocation import AllocationError, strategy, strategy_of_class
from rebalance_model.entities import MessageQueue, java_order, queue_order

AVG, CIRCLE = strategy("AVG"), strategy("AVG_BY_CIRCLE")


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", i) for i in range(count)]


def shares(kind, queue_count: int, clients: list[str]) -> list[list[int]]:
    return [[q.queue_id for q in kind.allocate("G", c, queues(queue_count), clients)] for c in clients]


@pytest.mark.parametrize(
    ("kind", "queue_count", "client_count", "expected"),
    [
        (AVG, 4, 3, [[0, 1], [2], [3]]),
        (AVG, 6, 4, [[0, 1], [2, 3], [4], [5]]),
        (AVG, 8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (AVG, 10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (AVG, 2, 4, [[0], [1], [], []]),
        (CIRCLE, 8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (CIRCLE, 10, 4, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (CIRCLE, 5, 2, [[0, 2, 4], [1, 3]]),
    ],
)
def test_worked_cases(kind, queue_count, client_count, expected):
    assert shares(kind, queue_count, [f"c{i}" for i in range(client_count)]) == expected


def test_a_client_id_that_stands_twice_leaves_queues_without_an_owner():
    """Seen on the real classes: both processes compute the share of the first place."""
    clients = ["c0", "c0", "c1"]
    owners = {q for share in AVG.plan("G", queues(8), clients).values() for q in share}
    assert [q.queue_id for q in queues(8) if q not in owners] == [3, 4, 5]
    assert shares(CIRCLE, 8, clients) == [[0, 3, 6], [0, 3, 6], [2, 5]]


@pytest.mark.parametrize("kind", [AVG, CIRCLE])
def test_arguments_are_checked_in_javas_order(kind):
    with pytest.raises(AllocationError, match="currentCID is empty"):
        kind.allocate("G", "", [], [])
    with pytest.raises(AllocationError, match="mqAll is null or mqAll empty"):
        kind.allocate("G", "c", [], [])
    with pytest.raises(AllocationError, match="cidAll is null or cidAll empty"):
        kind.allocate("G", "c", queues(1), [])
    assert kind.allocate("G", "stranger", queues(1), ["c"]) == []


def test_unknown_names():
    with pytest.raises(AllocationError, match="AVG_BY_CIRCLE"):
        strategy("AVERAGE")
    assert strategy_of_class("com.example.Mine") is None
    found = strategy_of_class("AllocateMessageQueueAveragelyByCircle")
    assert found is not None
    assert found.name == "AVG_BY_CIRCLE"


@given(st.sampled_from([AVG, CIRCLE]), st.integers(1, 200), st.integers(1, 200))
def test_every_queue_has_one_owner_and_shares_differ_by_one_at_most(kind, queue_count, client_count):
    clients = [f"c{i:03}" for i in range(client_count)]
    parts = shares(kind, queue_count, clients)
    assert sorted(q for part in parts for q in part) == list(range(queue_count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_javas_order_of_strings_and_queues():
    texts = ["\uff5e", "😀", "a", "B", "10", "9", "10.0.0.10@1", "10.0.0.2@1", "", "é"]
    expected = ["", "10", "10.0.0.10@1", "10.0.0.2@1", "9", "B", "a", "é", "😀", "\uff5e"]
    assert sorted(texts, key=java_order) == expected
    mixed = [MessageQueue("T", "b", 10), MessageQueue("T", "b", 9), MessageQueue("T", "a", 11)]
    assert sorted(mixed, key=queue_order) == [mixed[2], mixed[1], mixed[0]]
