"""Waiting times of a client's queues, by how it leaves."""

import pytest

from rebalance_model.observe.policy import Policy
from streaming.queries.group_at import find_group
from streaming.queries.plan import Departure, departures
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, MINUTE, Group
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000


def ways_of(tmp_path, orderly: bool | None) -> dict[str, Departure]:
    group = Group("g", "Orders", CLIENTS)
    group.state(NOW - 50 * MINUTE)
    group.rebalance(NOW - 40 * MINUTE, NOW - 39 * MINUTE, "r", CLIENTS[2], [(0, CLIENTS[2], CLIENTS[0])])
    group.state(NOW)
    append(make_tables(tmp_path / "tables"), group.taken())
    with ReadModel(tmp_path / "tables") as model:
        found = departures(model, find_group(model, "g"), Policy(), orderly=orderly, until=NOW)
    return {one.way: one for one in found}


def test_a_crash_takes_longer_than_a_shutdown(tmp_path):
    ways = ways_of(tmp_path, orderly=True)

    assert ways["SHUTDOWN"].bound == "at once"
    assert ways["KILLED"].bound == "up to 1 min"  # the broker keeps a lock for 60 s
    assert ways["CUT_OFF"].bound == "up to 2 min 10 s"  # 120 s without heartbeat, and a scan each 10 s


@pytest.mark.parametrize(("orderly", "bound"), [(False, "at once"), (None, "-")])
def test_only_an_ordered_group_waits_for_locks(tmp_path, orderly, bound):
    assert ways_of(tmp_path, orderly)["KILLED"].bound == bound


def test_measured_pauses_are_those_of_the_same_way(tmp_path):
    ways = ways_of(tmp_path, orderly=True)

    assert (ways["KILLED"].measured_moves, ways["KILLED"].pause_ms) == (1, 2_300)
    assert (ways["SHUTDOWN"].measured_moves, ways["SHUTDOWN"].pause_ms) == (0, None)
