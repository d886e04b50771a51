"""A queue over a period, by the rows of its group."""

import pytest

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.queries.group_at import find_group
from streaming.queries.known_queues import named_queue
from streaming.queries.queue_history import queue_detail, queue_history
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, STUCK, orders
from tests.support.asked import Asked
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    append(folder, orders(NOW).taken())
    with Asked(folder) as opened:
        yield opened


def asked(model, queue_id, since, until):
    of = find_group(model, "orders-group")
    return queue_history(model, of, MessageQueue("Orders", "broker-a", queue_id), since, until)


def test_owners_rebalances_and_incidents_of_one_queue(model):
    past = asked(model, 4, NOW - DIED - 5 * MINUTE, NOW)

    assert [one.client_id for one in past.intervals] == [CLIENTS[2], CLIENTS[0]]
    [rebalance] = past.rebalances
    assert [(move.queue_id, move.to_client) for move in rebalance.moves] == [(4, CLIENTS[0])]
    assert past.incidents == ()  # that of queue 0 does not concern it
    assert [one.incident_id for one in asked(model, 0, NOW - STUCK - MINUTE, NOW).incidents] == ["stuck0001"]


def test_what_was_observed_is_in_order_with_the_time_until_which_it_holds(model):
    past = asked(model, 0, NOW - 10 * MINUTE, NOW).observations

    assert [one.time for one in past] == sorted(one.time for one in past)
    assert past
    assert {(one.stale_at - one.time) // MINUTE for one in past} == {10}
    assert {one.source for one in past} == {"POLL"}
    assert asked(model, 0, NOW - 10 * MINUTE, NOW - 9 * MINUTE).observations[0].stale_at > NOW - 10 * MINUTE


def test_a_queue_of_which_nothing_is_known_is_empty_not_zero(model):
    found = asked(model, 99, NOW - 10 * MINUTE, NOW)
    assert (found.intervals, found.observations, found.unassigned_since) == ((), (), None)


def test_the_detail_of_a_queue_is_of_the_hour_before_the_instant(model):
    detail = queue_detail(
        model, find_group(model, "orders-group", at=NOW - DIED + MINUTE), MessageQueue("Orders", "broker-a", 4)
    )

    assert (detail.queue.owner, detail.history.until) == (CLIENTS[0], NOW - DIED + MINUTE)
    assert detail.history.since == detail.history.until - 60 * MINUTE
    assert (
        queue_detail(
            model,
            find_group(model, "orders-group", at=NOW),
            named_queue(model, find_group(model, "orders-group", at=NOW), None, "Orders", 4),
        ).history.broker
        == "broker-a"
    )
    with pytest.raises(NotFoundError, match="had no queue Orders@broker-a:99"):
        queue_detail(model, find_group(model, "orders-group", at=NOW), MessageQueue("Orders", "broker-a", 99))
    with pytest.raises(UserError, match="earlier --since"):
        queue_detail(model, find_group(model, "orders-group", at=NOW), MessageQueue("Orders", "broker-a", 4), since=NOW)
