"""An incident whose listener hung shows the stacks that its client answered until the incident was over."""

from datetime import date

import msgspec
import pytest

from streaming.queries.incident_detail import incident
from streaming.queries.results import ListenerThread
from streaming.tables import ReadModel
from tests.support.story import Story
from tests.support.tables import append, append_rows, make_tables

OPENED, RESOLVED = 1_000_000, 1_060_000
DAY = date(1970, 1, 1)
CLIENT, ANOTHER = "c1", "c2"
CAUSE = {"client_id": CLIENT, "main_cause": "LISTENER_HUNG", "main_explanation": "why", "main_client_id": CLIENT}


@pytest.mark.parametrize(
    ("answers", "frame"),
    [
        ([(OPENED - 20_000, CLIENT, "a")], "a"),
        ([(OPENED - 20_000, CLIENT, "a"), (RESOLVED, CLIENT, "b")], "b"),
        ([(OPENED - 20_000, CLIENT, "a"), (RESOLVED - 2, CLIENT, None)], "a"),
        ([(OPENED - 300_001, CLIENT, "a")], None),
        ([(RESOLVED + 1, CLIENT, "a")], None),
        ([(OPENED, ANOTHER, "a")], None),
        ([], None),
    ],
    ids=["before", "latest", "not-asked-again", "long-before", "after", "another-client", "never-asked"],
)
def test_the_latest_stacks_of_its_time_are_shown(tmp_path, answers, frame):
    stacks = asked(tmp_path, answers, **CAUSE)
    assert (stacks and stacks.threads) == (frame and (ListenerThread(name="t", state="WAITING", frames=(frame,)),))
    assert stacks is None or (stacks.client_id, stacks.time) == (CLIENT, answers[-1 if frame == "b" else 0][0])


def test_another_cause_has_none(tmp_path):
    suspended = CAUSE | {"sub_cause": "SUSPEND_LOOP", "main_cause": "SUSPEND_LOOP"}
    assert asked(tmp_path, [(OPENED, CLIENT, "a")], **suspended) is None


@pytest.mark.parametrize("cause", ["LISTENER_HUNG", "MESSAGE_LOST", "MESSAGE_HELD", "POOL_EXHAUSTED"])
def test_a_client_that_had_no_thread_in_its_listener_says_so(tmp_path, cause):
    """Asked, and none; a client that was not asked has no stacks."""
    of = CAUSE | {"sub_cause": cause, "main_cause": cause}
    assert asked(tmp_path / "asked", [(OPENED, CLIENT, "")], **of).threads == ()
    assert asked(tmp_path / "not-asked", [(OPENED, CLIENT, None)], **of) is None


def asked(folder, answers, **cause):
    """The stacks of an incident; each answer: time, client, its thread's frame; empty: no thread, None: not asked."""
    story = Story()
    story.incident(OPENED, "one", "OPENED", opened=OPENED, **cause)
    story.incident(RESOLVED, "one", "RESOLVED", opened=OPENED, **cause)
    append(make_tables(folder), story.rows)
    row = story.rows[0]
    append_rows(folder, "telemetry", [archived(row, *answer) for answer in answers])
    with ReadModel(folder) as model:
        return incident(model, "one").stacks


def archived(row, time, client_id, frame):
    event = {"type": "CONSUMER_RUNNING_INFO", "time": time, "cluster": row.cluster, "broker": "broker-a"}
    event |= {"broker_id": 0, "source": "poll", "source_id": "poll-1@1", "seq": time, "group": row.group}
    event |= {"client_id": client_id, "orderly": True, "queues": []}
    if frame is not None:
        event["stacks_asked"] = True
    if frame:
        event["stacks"] = [{"name": "t", "state": "WAITING", "frames": [frame]}]
    of_log = {"key": f"{row.cluster}/{row.group}", "partition": 0, "offset": time, "ingest_time": time, "date": DAY}
    return event | of_log | {"value": msgspec.json.encode(event).decode()}
