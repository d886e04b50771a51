"""A rebuild puts other incidents into the table while alerts are sent: nobody is told twice, nothing is left out."""

import msgspec
import pytest

from checkpoints.manifest import Swap
from checkpoints.swap import apply
from schemas.arrow import table_of
from streaming.pipeline.rebuild.rows import write_rows
from tests.support.alerting import Clock, Listener, append_transitions, rounds, start, transition
from tests.support.tables import make_tables


@pytest.fixture
def tables(tmp_path):
    return make_tables(tmp_path / "tables")


@pytest.fixture
def ops():
    return Listener()


def swap(tables, swap_id, *transitions):
    rows = table_of("anomalies", [msgspec.to_builtins(one) for one in transitions])
    write_rows(tables.parent / swap_id / "anomalies" / "rows.parquet", "anomalies", rows)
    apply(Swap(swap_id, ("anomalies",), swap_id, ""), tables.parent, tables)


STANDS = {"subject": "Orders@b:0"}
NEVER_WAS = {"subject": "Orders@b:1"}
MISSED = {"subject": "Orders@b:2"}
OVER = {"subject": "Orders@b:3"}


def rebuild(tables):
    """Opened at another time, so under another id; was never there; had been left out; is over."""
    swap(
        tables, "first", transition("stands-now", seq=101, **STANDS), transition("missed", seq=102, **MISSED),
        transition("over", seq=103, **OVER), transition("over", "RESOLVED", seq=104, **OVER),
    )  # fmt: skip


def before(tables):
    append_transitions(tables, transition("stands", seq=1, **STANDS), transition("never-was", seq=2, **NEVER_WAS))
    append_transitions(tables, transition("over", seq=3, **OVER))


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_rebuild_only_what_is_new_is_sent(tables, ops, restarted):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    before(tables)
    rounds(alerting)
    ops.messages.clear()

    rebuild(tables)
    rounds(alerting if not restarted else start(tables, clock, {"ops": ops}))
    assert sorted(ops.received) == [("OPENED", "missed"), ("RESOLVED", "never-was"), ("RESOLVED", "over")]

    ops.messages.clear()
    append_transitions(tables, transition("stands-now", "RESOLVED", seq=105, **STANDS))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("RESOLVED", "stands-now")]


def test_what_is_on_its_way_when_it_is_rebuilt_is_sent_once_and_resolved(tables, ops):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    rounds(alerting)
    append_transitions(tables, transition("stands", seq=1, **STANDS))
    alerting._read(clock.now)
    alerting._keep()
    swap(tables, "first", transition("stands-now", seq=101, **STANDS))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "stands")]
    append_transitions(tables, transition("stands-now", "RESOLVED", seq=102, **STANDS))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "stands"), ("RESOLVED", "stands-now")]


def test_two_rebuilds_and_the_same_id_again_send_nothing(tables, ops):
    clock = Clock()
    alerting = start(tables, clock, {"ops": ops})
    append_transitions(tables, transition("stands", seq=1, **STANDS))
    rounds(alerting)
    swap(tables, "first", transition("stands-now", seq=101, **STANDS))
    rounds(alerting)
    swap(tables, "second", transition("stands", seq=201, **STANDS))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "stands")]
    append_transitions(tables, transition("stands", "RESOLVED", seq=202, **STANDS))
    rounds(start(tables, clock, {"ops": ops}))
    assert ops.received == [("OPENED", "stands"), ("RESOLVED", "stands")]
