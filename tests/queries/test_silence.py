"""End of telemetry: as soon as nothing that comes all the time is heard any more."""

import datetime as dt
from functools import partialmethod

import pytest

from rebalance_model.entities import MessageQueue
from streaming.base.errors import UserError
from streaming.queries import present
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups
from streaming.queries.ownership import queues, who_owned
from streaming.queries.present import known_ends
from streaming.tables import ReadModel
from tests.support.story import Story
from tests.support.tables import append, append_rows, make_tables

BEGIN = 1_795_300_000_000
S = 1_000
"""Times are seconds after `BEGIN`."""
INGESTED_LATER = 3_600_000
"""A recording is ingested long after its events; milliseconds."""


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens tables in which a source was heard at these times."""

    def make(source: str, heard: tuple[int, ...], states: tuple[int, ...] = (0,)) -> ReadModel:
        story, folder = Story(), make_tables(tmp_path)
        for at in states:
            story.group(BEGIN + at * S, "OK")
            story.queue(BEGIN + at * S)
        if source != "ARCHIVE":
            for at in heard:
                kind = "HOOK" if source == "HOOK" else "CONSUME_STATS"
                story.progress(BEGIN + at * S, kind, queue_id=(0,), lag=(1,))
        else:
            append_rows(folder, "telemetry", [ticked(BEGIN + at * S) for at in heard])
        append(folder, story.rows)
        return ReadModel(folder)

    return make


@pytest.fixture
def set_clock(monkeypatch):
    """Return a function that sets the clock; the same tables answer at each time."""
    return lambda clock: monkeypatch.setattr(present, "now_ms", lambda: BEGIN + clock * S)


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
    ("heard", "last", "going_on", "silent"),
    [
        ((0, 200), 200, 379, 380),
        ((0, 200, 400), 400, 579, 580),
        ((0,), 0, 179, 180),
        ((-170,), 0, 179, 180),  # it was heard shortly before the last state
        ((-180,), 0, 899, 900),  # it had stopped before, so it is not what shows that telemetry goes on
    ],
)
def test_telemetry_has_stopped_when_nothing_was_heard_for_3_minutes(
    opened, set_clock, source, heard, last, going_on, silent
):
    with opened(source, heard) as model:
        set_clock(going_on)
        assert known_ends(model).silent is False
        set_clock(silent)
        found = known_ends(model)
        assert (found.silent, found.last) == (True, BEGIN + last * S)


def test_by_hooks_without_an_archive_only_the_state_of_groups_is_heard(opened, set_clock):
    with opened("HOOK", (0, 100, 200)) as model:
        set_clock(899)
        assert known_ends(model).silent is False
        set_clock(900)
        assert known_ends(model).silent is True


@pytest.mark.parametrize("source", ["POLL", "ARCHIVE"])
def test_within_a_silence_health_is_unknown_afterwards_too(opened, set_clock, source):
    set_clock(2_010)
    with opened(source, (0, 200, 2_000), states=(0, 2_000)) as model:
        for at, health in ((59, "OK"), (259, "OK"), (380, "UNKNOWN"), (1_999, "UNKNOWN"), (2_001, "OK")):
            [group] = groups(model, at=BEGIN + at * S)
            assert (at, group.health) == (at, health)
            if health == "UNKNOWN":
                silence = "no telemetry since 2026-11-21T22:30:00.000Z; last known health: OK"
                assert group.health_reason.startswith(silence)


@pytest.mark.parametrize("source", ["POLL", "ARCHIVE"])
def test_what_is_stale_is_not_ok_and_a_minute_later_its_queues_are_unknown(opened, set_clock, source):
    """After a restart of the job: the newest telemetry is old, and no lag is known."""
    with opened(source, (0, 200)) as model:
        for age, is_stale in ((0, False), (59, False), (60, True), (179, True)):
            set_clock(200 + age)
            for at in (None, BEGIN + (200 + age) * S):
                [group], [queue] = groups(model, at), queues(model, find_group(model, "orders", at=at))
                assert (group.health, queue.status) == ("UNKNOWN" if is_stale else "OK", "OK")
                if is_stale:
                    said = "no telemetry since 2026-11-21T22:30:00.000Z; last known health: OK"
                    assert (group.health_reason, group.lag) == (said, None)
                assert (group.is_stale, queue.is_stale, group.telemetry_age_ms) == (is_stale, is_stale, age * S)


def test_by_rare_polls_two_intervals_without_one_are_stale(opened, set_clock, monkeypatch):
    monkeypatch.setattr(Story, "progress", partialmethod(Story.progress, interval=40 * S))
    with opened("POLL", (0, 100)) as model:
        for age, is_stale in ((79, False), (80, True)):
            set_clock(100 + age)
            assert groups(model)[0].is_stale is is_stale


def test_after_the_last_telemetry_no_status_is_known_and_no_owner(opened, set_clock):
    set_clock(100_000)
    with opened("POLL", (0, 200)) as model:
        at = BEGIN + 50_000 * S
        [group], [queue] = groups(model, at), queues(model, find_group(model, "orders", at=at))
        assert (group.health, queue.status) == ("UNKNOWN", "UNKNOWN")
        assert queue.status_reason == group.health_reason
        assert queue.status_reason.endswith("; last known health: OK")
        assert (group.is_stale, group.telemetry_age_ms) == (True, 49_800 * S)
        with pytest.raises(UserError, match=r"unknown: that is 13 h 50 min after the last telemetry \(2026-"):
            who_owned(
                model, find_group(model, queue.group, at=at), MessageQueue(queue.topic, queue.broker, queue.queue_id)
            )
        # Now, when all has ended, the answer is of the last telemetry, and only that is old.
        [group], [queue] = groups(model), queues(model, find_group(model, "orders"))
        assert (group.health, queue.status) == ("OK", "OK")
        assert (group.is_stale, queue.is_stale, group.telemetry_age_ms) == (False, False, 99_800 * S)
