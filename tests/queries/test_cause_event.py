"""The event that opened an incident is found in the archive, whichever clock it was stamped by."""

import json

import pytest

from streaming.queries.incident_detail import _event_as_sent, incident
from streaming.tables import ReadModel
from tests.support.story import Story, log
from tests.support.tables import accepted, append, archive, make_tables

EVENT = accepted(log())[3]
HOUR = 3_600_000


@pytest.mark.parametrize("apart", [0, 5_000, -5_000, 7 * HOUR, -30 * HOUR])
def test_the_cause_is_found_near_its_incident_or_anywhere(tmp_path, apart):
    story = Story(cause=f"{EVENT['source_id']}|{EVENT['key']}|{EVENT['seq']}")
    story.incident(EVENT["time"] + apart, "one", "OPENED")
    append(make_tables(tmp_path), story.rows)
    archive(tmp_path, log())

    with ReadModel(tmp_path) as model:
        assert incident(model, "one").cause_event == json.loads(EVENT["value"])


def test_a_cause_with_a_field_that_nests_deeply_is_shown_as_text():
    assert _event_as_sent('{"type":"TICK","x":[[1]]}') == {"type": "TICK", "x": [[1]]}
    for depth in (64, 200, 5_000):
        value = '{"type":"TICK","x":' + "[" * depth + "]" * depth + "}"
        assert _event_as_sent(value) == {"value": value[:1_000]}


def test_a_cause_that_is_archived_no_more_is_none(tmp_path):
    story = Story()
    story.incident(500, "one", "OPENED")
    append(make_tables(tmp_path), story.rows)

    with ReadModel(tmp_path) as model:
        assert incident(model, "one").cause_event is None


@pytest.mark.parametrize("ended", [False, True])
def test_cause_and_evidence_are_those_of_the_worst_transition(tmp_path, ended):
    """An owner that did not respond; the last seconds, and who owns the queue then, do not explain the incident."""
    story = Story()
    main = {"main_cause": "OWNER_UNRESPONSIVE", "main_explanation": "why"}
    story.incident(100, "one", "OPENED", "warning", sub_cause="OWNER_UNRESPONSIVE", **main)
    story.incident(200, "one", "ESCALATED", sub_cause="OWNER_UNRESPONSIVE", **main)
    story.incident(300, "one", "RECLASSIFIED", sub_cause="UNDETERMINED", **main)
    if ended:
        story.incident(400, "one", "RESOLVED", sub_cause="UNDETERMINED", **main)
    append(make_tables(tmp_path), story.rows)

    with ReadModel(tmp_path) as model:
        found = incident(model, "one").incident
        assert (found.sub_cause, found.evidence, found.judged_at) == ("OWNER_UNRESPONSIVE", {"at": 200}, 200)
