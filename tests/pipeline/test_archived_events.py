"""Archived rows are as large for a rebuild and a backtest as they were in the log for the job, which counts bytes."""

import msgspec
import pytest

from rebalance_model.observe.engine.ordering import Ordering
from rebalance_model.observe.events import GroupEvent
from rebalance_model.observe.policy import Policy
from streaming.log.rows import encode
from streaming.pipeline.archive_rows import LogRow, decoded
from streaming.pipeline.backtest import BacktestPeriod, backtest
from streaming.pipeline.rebuild.build import ArchivedPartition
from streaming.tables import ReadModel
from tests.core.test_shard import LOG
from tests.support.tables import archive, make_tables
from tests.support.trace import START

ROWS = 60
EVENTS = [
    msgspec.structs.replace(event, cluster="集群", **({"group": "订单"} if isinstance(event, GroupEvent) else {}))
    for event in LOG[:ROWS]
]
END = max(event.time for event in EVENTS)


@pytest.fixture
def model(tmp_path):
    rows = [LogRow(0, offset, None, encode(event), END) for offset, event in enumerate(EVENTS)]
    archive(make_tables(tmp_path), rows)
    with ReadModel(tmp_path) as model:
        yield model


@pytest.fixture
def pushed(monkeypatch):
    """The events that an ordering gets, with their sizes."""
    events, push = [], Ordering.push

    def noted(self, event, stamp, size, **named):
        events.append((event, size))
        return push(self, event, stamp, size, **named)

    monkeypatch.setattr(Ordering, "push", noted)
    return events


def check_sizes(pushed):
    assert all(size == len(encode(event)) > len(encode(event).decode()) for event, size in pushed)


def test_a_rebuild_counts_bytes_in_its_survey_its_fold_and_after_it(model, pushed):
    partition = ArchivedPartition(0, Policy())
    broadcasts = sum(not isinstance(event, GroupEvent) for event in EVENTS[: ROWS // 2])
    assert sum(1 for _ in partition.fold(model, ROWS // 2)) == ROWS // 2
    assert sum(1 for _ in partition.go_on(model, ROWS)) == ROWS // 2
    assert len(pushed) == ROWS + broadcasts
    assert broadcasts > 0
    check_sizes(pushed)


def test_a_backtest_counts_bytes(model, pushed):
    assert backtest(model, Policy(), BacktestPeriod(START, END, 0)).rows == len(pushed) > ROWS // 2
    check_sizes(pushed)


def test_a_row_that_only_an_earlier_release_accepted_has_no_event():
    assert decoded('{"订单"', END) == (None, 9)
