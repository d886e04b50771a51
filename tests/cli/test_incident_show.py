"""`incident show` of an open incident: what its queue is now, or was when it was last heard of."""

import re
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from streaming.base import times
from streaming.cli import main, output
from tests.serve.dashboard.tables import MINUTE, NOW, Group
from tests.support.asked import Asked
from tests.support.tables import append, make_tables

DAY = 24 * 60 * MINUTE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The tables of two groups with a queue that no client has: one divides its queues, the other broadcasts."""
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    for name, fields in (("split", {}), ("cast", {"message_model": "BROADCASTING"})):
        group = Group(f"{name}-group", name.title(), ("10.0.0.4@one",))
        group.state(NOW - 20 * MINUTE, **fields)
        group.incident(NOW - 5 * MINUTE, f"{name}-open", "OPENED", NOW - 5 * MINUTE, code="QUEUE_STALLED")
        group.queue(NOW - 10_000, 0, None, lag=7, status="BAD", status_reason="QUEUE_STALLED")
        group.state(NOW, "BAD", "QUEUE_STALLED", **fields)
        append(folder, group.taken())
    with Asked(folder) as opened:
        yield opened


@pytest.fixture
def printed(model, monkeypatch):
    """Return what the command prints some time after the last telemetry; milliseconds."""

    def show(incident_id: str, later: int) -> str:
        monkeypatch.setattr(output, "tables", lambda: nullcontext(model))
        monkeypatch.setattr(times.time, "time_ns", lambda: (NOW + later) * 1_000_000)
        return CliRunner().invoke(main.app, ("--tz", "UTC", "incident", "show", incident_id)).stdout

    return show


def test_a_queue_without_an_owner_is_unassigned_not_unknown(printed):
    assert "its queue: owner unassigned, lag 7" in printed("split-open", 0)
    assert "its queue: owner every client, lag 7" in printed("cast-open", 0)


def test_what_waits_has_its_time_and_age(printed):
    assert "the oldest for 7 s or less. Observed 22:26:30 UTC, 10 s ago." in printed("split-open", 0)
    old = printed("split-open", DAY)
    assert re.search(r"Observed 11-21 22:26:30 UTC, [\d.]+ m?s ago\.", old)  # as of the last telemetry
    assert "its queue: owner unassigned" in old
