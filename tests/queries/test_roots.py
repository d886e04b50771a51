"""An incident that names a client or broker with an incident of its own is explained by that one."""

import pytest

from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
CLIENT = "a@1"
NOTHING = dict.fromkeys(("topic", "broker", "queue_id"))


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens tables with an unresponsive client of a severity, and incidents that name it."""

    def make(severity: str) -> ReadModel:
        group = Group("orders", "Orders", (CLIENT, "b@2"))
        group.state(NOW - MINUTE)
        group.incident(
            NOW - MINUTE, "frozen", "OPENED", NOW - MINUTE, code="CLIENT_UNRESPONSIVE", sub_cause="", subject=CLIENT,
            severity=severity, **NOTHING,
        )  # fmt: skip
        for number in range(2):
            group.incident(NOW, f"stuck-{number}", "OPENED", NOW, number)
        group.incident(NOW, "another", "OPENED", NOW, 2, client_id="b@2")
        append(make_tables(tmp_path), group.taken())
        return ReadModel(tmp_path)

    return make


def test_what_names_a_client_with_an_incident_of_its_own_is_under_it(opened):
    with opened("critical") as model:
        roots = {one.incident_id: (one.alike, one.consequences) for one in incidents(model, unfold=False)}
        assert roots == {"frozen": (0, 2), "another": (0, 0)}
        assert {one.incident_id: one.parent for one in incidents(model)} == {
            "frozen": None, "stuck-0": "frozen", "stuck-1": "frozen", "another": None,
        }  # fmt: skip
        assert incident(model, "stuck-1").incident.parent == "frozen"
        assert {one.incident_id for one in incident(model, "frozen").absorbed} == {"stuck-0", "stuck-1"}
        assert {one.parent for one in incidents(model, code="ORDERED_QUEUE_STUCK")} == {"frozen", None}


def test_a_critical_incident_is_not_hidden_under_a_warning(opened):
    with opened("warning") as model:
        roots = {one.incident_id: one.alike for one in incidents(model, unfold=False)}
        assert roots == {"stuck-0": 1, "another": 0, "frozen": 0}
