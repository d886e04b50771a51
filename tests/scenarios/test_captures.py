"""Pieces of recordings of the lab that showed something worth keeping."""

from pathlib import Path

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.decoding import decode
from rebalance_model.observe.effects import AnyEffect, IncidentTransition, RebalanceSettled
from streaming.log.recording import replayed_rows
from tests.support.folding import folded

CAPTURES = Path(__file__).with_name("captures")


def fold(name: str) -> list[AnyEffect]:
    rows = (row for line in replayed_rows(CAPTURES / name, 1) for row in line)
    return folded(decode(row.value, key=None, stamp=INT64_MAX, keyed=False) for row in rows)


def test_a_thawed_client_on_two_channels_leaves_a_queue_to_nobody():
    """Thawed after 160 s, orders-3 came back on a second channel before the broker had dropped the first. For 130 s it
    stood twice in the list that every client divides the queues by, and AVG's second share of it was nobody's: queue 6
    waited without an owner while every client was well.
    """
    effects = fold("thawed-client-on-two-channels.jsonl.gz")
    orphaned = [e for e in effects if isinstance(e, IncidentTransition) and e.queue_id == 6]
    assert [(e.transition, e.code, e.sub_cause) for e in orphaned] == [
        ("OPENED", "ORDERED_QUEUE_STUCK", "UNASSIGNED"),
        ("RESOLVED", "ORDERED_QUEUE_STUCK", "UNASSIGNED"),
    ]
    assert orphaned[1].time - orphaned[0].time > 60_000
    last = [e for e in effects if isinstance(e, RebalanceSettled)][-1]
    assert (last.trigger, last.trigger_client, last.converged) == ("CONNECTIONS_CHANGED", "127.0.0.1@orders-3", True)
    assert [m.to_client for m in last.moves if m.queue.queue_id == 6] == ["127.0.0.1@orders-4"]
