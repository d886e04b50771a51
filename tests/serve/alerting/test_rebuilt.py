"""A rebuild replaces the incidents of the table while alerts are sent: none is sent twice, none is lost."""

import msgspec
import pytest

from checkpoints.manifest import Swap
from checkpoints.swap import apply
from schemas.arrow import table_of
from streaming.pipeline.rebuild.rows import write_rows
from tests.support.alerting import Clock, append_transitions, rounds, start, transition


def swap(tables, swap_id, *transitions):
    rows = table_of("anomalies", [msgspec.to_builtins(one) for one in transitions])
    write_rows(tables.parent / swap_id / "anomalies" / "rows.parquet", "anomalies", rows)
    apply(Swap(swap_id, ("anomalies",), swap_id, ""), tables.parent, tables)


SAME = {"subject": "Orders@b:0"}
WRONG = {"subject": "Orders@b:1"}
MISSED = {"subject": "Orders@b:2"}
RESOLVED = {"subject": "Orders@b:3"}


def rebuild(tables):
    """Replace the incidents: one has another id, one is missing, one is new, one has resolved."""
    swap(
        tables, "first", transition("same-rebuilt", seq=101, **SAME), transition("missed", seq=102, **MISSED),
        transition("resolved", seq=103, **RESOLVED), transition("resolved", "RESOLVED", seq=104, **RESOLVED),
    )  # fmt: skip


def before(tables):
    append_transitions(tables, transition("same", seq=1, **SAME), transition("wrong", seq=2, **WRONG))
    append_transitions(tables, transition("resolved", seq=3, **RESOLVED))


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_rebuild_only_new_incidents_are_sent(tables, ops, restarted):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    before(tables)
    rounds(alerting)
    ops.messages.clear()

    rebuild(tables)
    rounds(alerting if not restarted else start(tables, clock, {"ops": ops}))
    assert sorted(ops.received) == [("OPENED", "missed"), ("RESOLVED", "resolved"), ("RESOLVED", "wrong")]

    ops.messages.clear()
    append_transitions(tables, transition("same-rebuilt", "RESOLVED", seq=105, **SAME))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("RESOLVED", "same-rebuilt")]


def test_a_message_in_flight_during_a_rebuild_is_sent_once_and_resolved(tables, ops):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    rounds(alerting)
    append_transitions(tables, transition("same", seq=1, **SAME))
    alerting._read(clock.now)
    alerting._keep()
    swap(tables, "first", transition("same-rebuilt", seq=101, **SAME))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "same")]
    append_transitions(tables, transition("same-rebuilt", "RESOLVED", seq=102, **SAME))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "same"), ("RESOLVED", "same-rebuilt")]


def test_two_rebuilds_and_the_same_id_again_send_nothing(tables, ops):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, transition("same", seq=1, **SAME))
    rounds(alerting)
    swap(tables, "first", transition("same-rebuilt", seq=101, **SAME))
    rounds(alerting)
    swap(tables, "second", transition("same", seq=201, **SAME))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "same")]
    append_transitions(tables, transition("same", "RESOLVED", seq=202, **SAME))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "same"), ("RESOLVED", "same")]
