"""What is said of an incident is of one instant, in each answer, over the demo's recording and reports of the field."""

import json
from collections.abc import Iterator

import msgspec
import pytest

from rebalance_model.observe.rules.registry import advice_for
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.tables import ReadModel
from tests.support.field import CASES, concluded
from tests.support.findings import effects
from tests.support.tables import append, make_tables

SHORT = (
    "01-queues-removed", "03b-pull-refused-ordered", "07-ns-split", "16b-assign-split", "20-ordered-retry-for-ever",
    "21-same-id", "23-master-switch", "27-name-servers-down",
)  # fmt: skip
EVERY = tuple(sorted(case.name for case in CASES.iterdir()))


@pytest.fixture(
    scope="module", params=[SHORT, pytest.param(EVERY, marks=pytest.mark.prove)], ids=["some cases", "every case"]
)
def model(request, tmp_path_factory) -> Iterator[ReadModel]:
    """The tables of the demo, and of each case as a cluster of its own."""
    folder = make_tables(tmp_path_factory.mktemp("agree"))
    append(folder, effects())
    for name in request.param:
        append(folder, [msgspec.structs.replace(one, cluster=name) for one in concluded(name, "both").effects])
    with ReadModel(folder) as opened:
        yield opened


def instants(model) -> list[int]:
    """Return the instants after each transition that changed a cause or a severity, and the end."""
    rows = model.rows("SELECT DISTINCT a.time FROM anomalies a WHERE a.transition IN ('RECLASSIFIED', 'ESCALATED')")
    return [*sorted(row["time"] for row in rows)[:40:3], None]


def test_all_fields_of_an_incident_are_of_one_transition(model):
    seen = 0
    for at in instants(model):
        for one in incidents(model, at=at):
            rows = model.rows(
                "SELECT a.* FROM anomalies a WHERE a.incident_id = $id AND a.cluster = $cluster"
                " AND a.time = from_ms($judged) AND a.sub_cause = $cause",
                {"id": one.incident_id, "cluster": one.cluster, "judged": one.judged_at, "cause": one.sub_cause},
            )
            said = (one.client_id, one.explanation, one.first_step, one.evidence)
            assert said in [
                (row["client_id"], row["explanation"], row["first_step"], json.loads(row["evidence"])) for row in rows
            ]
            advice = advice_for(one.code, one.sub_cause)
            assert (one.explanation, one.first_step) == (advice.what, advice.first_step)
            seen += 1
    assert seen > 50


def test_an_incident_alone_is_as_in_the_list(model):
    for one in incidents(model):
        if one.cluster == "lab":
            alone = incident(model, one.incident_id).incident
            assert alone.model_copy(update={"consequences": one.consequences}) == one
