"""When telemetry has stopped: as soon as nothing that comes all the time is heard any more."""

import datetime as dt

import pytest

from streaming.queries import present
from streaming.queries.groups import groups
from streaming.queries.present import known_ends
from streaming.tables import ReadModel
from tests.support.tables import append, append_rows, make_tables
from tests.tables.test_read_model import Story

BEGIN = 1_795_300_000_000
S = 1_000
"""Times are seconds after `BEGIN`."""
INGESTED_LATER = 3_600_000
"""A recording is ingested long after its events; milliseconds."""


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return a function that opens tables in which a source was heard at these times, at a time of the clock."""

    def make(source: str, heard: tuple[int, ...], clock: int, states: tuple[int, ...] = (0,)) -> ReadModel:
        story, folder = Story(), make_tables(tmp_path)
        for at in states:
            story.group(BEGIN + at * S, "OK")
        if source != "ARCHIVE":
            for at in heard:
                kind = "HOOK" if source == "HOOK" else "CONSUME_STATS"
                story.progress(BEGIN + at * S, kind, queue_id=(0,), lag=(1,))
        else:
            append_rows(folder, "telemetry", [ticked(BEGIN + at * S) for at in heard])
        append(folder, story.rows)
        monkeypatch.setattr(present, "now_ms", lambda: BEGIN + clock * S)
        return ReadModel(folder)

    return make


def ticked(time: int) -> dict[str, object]:
    common = {"cluster": "c", "broker": "", "broker_id": 0, "source": "hook", "source_id": "b@1", "seq": 1}
    row = {
        "date": dt.datetime.fromtimestamp(time / 1000, dt.UTC).date(),
        "type": "TICK",
        "time": time,
        "ingest_time": time + INGESTED_LATER,
    }
    return common | row | {"group": None, "key": "", "value": "{}", "partition": 0, "offset": time - BEGIN}


@pytest.mark.parametrize("source", ["POLL", "ARCHIVE"])
@pytest.mark.parametrize(
    ("heard", "clock", "last", "silent"),
    [
        ((0, 200), 379, 200, False),
        ((0, 200), 380, 200, True),
        ((0, 200, 400), 579, 400, False),
        ((0,), 180, 0, True),
        ((-170,), 180, 0, True),  # it was heard shortly before the last state
        (
            (-180,),
            899,
            0,
            False,
        ),  # it had stopped before the last state, so it is not what shows that telemetry goes on
        ((-180,), 900, 0, True),
    ],
)
def test_telemetry_has_stopped_when_nothing_was_heard_for_3_minutes(opened, source, heard, clock, last, silent):
    with opened(source, heard, clock) as model:
        found = known_ends(model)
        assert found is not None
        assert found.silent is silent
        if silent:
            assert found.last == BEGIN + last * S


@pytest.mark.parametrize(("clock", "silent"), [(899, False), (900, True)])
def test_by_hooks_without_an_archive_only_the_state_of_groups_is_heard(opened, clock, silent):
    with opened("HOOK", (0, 100, 200), clock) as model:
        found = known_ends(model)
        assert found is not None
        assert found.silent is silent


@pytest.mark.parametrize("source", ["POLL", "ARCHIVE"])
@pytest.mark.parametrize(
    ("at", "health"), [(100, "OK"), (379, "OK"), (380, "UNKNOWN"), (1_999, "UNKNOWN"), (2_001, "OK")]
)
def test_within_a_silence_health_is_unknown_afterwards_too(opened, source, at, health):
    with opened(source, (0, 200, 2_000), 2_010, states=(0, 2_000)) as model:
        [group] = groups(model, at=BEGIN + at * S)
        assert group.health == health
        if health == "UNKNOWN":
            assert group.health_reason.startswith("no telemetry since 2026-11-21T22:30:00.000Z; last known health: OK")
