"""Parts of recordings of the lab that showed an error."""

import json
from pathlib import Path

import pytest

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import AnyEffect, IncidentTransition, RebalanceSettled
from rebalance_model.observe.events.decoding import decode
from streaming.lab.demo import CAPTURE
from streaming.log.recording import replayed_rows
from tests.support.folding import folded

CAPTURES = Path(__file__).with_name("captures")


def fold(path: Path, source: str = "") -> list[AnyEffect]:
    """Return the effects of a recording, or of one kind of its sources."""
    rows = (row for line in replayed_rows(path, 1) for row in line)
    events = (decode(row.value, key=None, stamp=INT64_MAX, keyed=False) for row in rows)
    return folded(event for event in events if source in ("", event.source))


def test_a_thawed_client_on_two_channels_leaves_a_queue_unassigned():
    """Thawed after 160 s, orders-3 came back on two channels within milliseconds. For 130 s it stood twice in the list
    that every client divides the queues by, and AVG's second share of it had no owner: queue 6 waited while every
    client was well.
    """
    effects = fold(CAPTURES / "thawed-client-on-two-channels.jsonl.gz")
    transitions = [e for e in effects if isinstance(e, IncidentTransition) and e.queue_id == 6]
    of_ghost = [e for e in transitions if e.code == "QUEUE_UNASSIGNED"]
    assert [(e.transition, e.severity, e.sub_cause) for e in of_ghost] == [
        ("OPENED", "warning", "GHOST_CONNECTION"),
        ("ESCALATED", "critical", "GHOST_CONNECTION"),
        ("RESOLVED", "critical", "GHOST_CONNECTION"),
    ]
    opened, _, resolved = of_ghost
    shown = json.loads(opened.evidence)
    assert (shown["ghost_clients"], shown["first_queues"]) == ("127.0.0.1@orders-3", "Orders@broker-a:6")
    assert resolved.time - 30_000 < shown["latest_drop_at"] < resolved.time  # the scan, and the heir's own timer
    assert [e.code for e in transitions if e.transition == "OPENED"] == ["QUEUE_UNASSIGNED", "ORDERED_QUEUE_STUCK"]
    last = [e for e in effects if isinstance(e, RebalanceSettled)][-1]
    assert (last.trigger, last.trigger_client, last.converged) == ("CONNECTIONS_CHANGED", "127.0.0.1@orders-3", True)
    assert [m.to_client for m in last.moves if m.queue.queue_id == 6] == ["127.0.0.1@orders-4"]


@pytest.mark.parametrize("source", ["", "poll"])
def test_after_a_brokers_return_a_client_on_two_channels_is_reported(source):
    """The end of the demo's capture: orders-1 registers as the broker restarts, its connection breaks and stays listed.
    Three queues had no owner to the end of the recording, 73 s, and their lag rose to 30.
    """
    effects = fold(CAPTURE, source)
    transitions = [e for e in effects if isinstance(e, IncidentTransition) and e.code == "QUEUE_UNASSIGNED"]
    assert {e.queue_id for e in transitions if e.transition == "OPENED"} == {3, 4, 5}
    for transition in transitions:
        evidence = json.loads(transition.evidence)
        assert transition.sub_cause == "GHOST_CONNECTION"
        assert (evidence["dead_channels"], evidence["living_channels"]) == ("127.0.0.1:38924", "127.0.0.1:39008")
        assert evidence["unowned_ms"] < (40_000 if transition.transition == "OPENED" else 80_000)
