"""Queues are found by their names and by the clients that owned them in a period."""

from streaming.queries.ownership import find_owned
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, shop
from tests.support.tables import append, make_tables

NOW = 1_763_700_000_000


def owned(folder, text: str, since: int = NOW - 60 * MINUTE, until: int = NOW) -> list[tuple[int, str, int | None]]:
    append(make_tables(folder), [row for group in shop(NOW) for row in group.taken()])
    with ReadModel(folder) as model:
        return [(one.queue_id, one.client_id, one.to_time) for one in find_owned(model, text, since, until, 100)]


def test_a_client_that_died_is_found_with_the_queues_that_it_had(tmp_path):
    assert owned(tmp_path, "ORDERS-3") == [(4, CLIENTS[2], NOW - DIED), (5, CLIENTS[2], NOW - DIED)]


def test_what_ended_before_the_period_is_not_found(tmp_path):
    assert owned(tmp_path, "orders-3", since=NOW - DIED + MINUTE) == []


def test_at_an_earlier_instant_it_still_has_them(tmp_path):
    assert owned(tmp_path, "orders-3", until=NOW - DIED - MINUTE) == [(4, CLIENTS[2], None), (5, CLIENTS[2], None)]


def test_a_queue_is_found_by_a_part_of_its_name_present_owners_first(tmp_path):
    assert owned(tmp_path, "orders@broker-a:4") == [(4, CLIENTS[0], None), (4, CLIENTS[2], NOW - DIED)]
