"""Answers about an incident are of one instant: the demo, reports of the field, recordings of labs."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.rules.registry import advice_for
from streaming.base.times import instant_ms
from streaming.queries.group_at import find_group
from streaming.queries.groups import groups, overview
from streaming.queries.health import SEVERITY
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incidents
from streaming.queries.results import Incident
from streaming.queries.roots import EXPLAINING
from streaming.tables import ReadModel
from tests.instruments.faults.verdict import events
from tests.support.asked import Asked
from tests.support.field import CASES, concluded
from tests.support.findings import effects
from tests.support.folding import folded
from tests.support.recordings import unpacked
from tests.support.tables import append, make_tables

SHORT = (
    "01-queues-removed", "03b-pull-refused-ordered", "07-ns-split", "16b-assign-split", "20-ordered-retry-for-ever",
    "21-same-id", "23-master-switch", "27-name-servers-down",
)  # fmt: skip
FROZEN = instant_ms("2026-11-21T15:52Z", 0)
"""In the demo, when a client of three queues does not answer."""
EVERY = tuple(sorted(case.name for case in CASES.iterdir()))
LIVE = Path(__file__).parents[1] / "live"
RECORDINGS = ("faults", "field", "go", "languages", "pop", "replicas", "twins")
"""Those of real servers, beside the demo's."""


@pytest.fixture(
    scope="module", params=[SHORT, pytest.param(EVERY, marks=pytest.mark.prove)], ids=["some cases", "every case"]
)
def model(request, tmp_path_factory) -> Iterator[ReadModel]:
    """The tables of the demo, and of each case as a cluster of its own."""
    folder = make_tables(tmp_path_factory.mktemp("agree"))
    append(folder, effects())
    for name in request.param:
        append(folder, [msgspec.structs.replace(one, cluster=name) for one in concluded(name, "both").effects])
    for name in RECORDINGS if request.param is EVERY else ():
        recording = unpacked(LIVE / f"{name}.tar.xz", tmp_path_factory.mktemp(name))
        append(folder, [msgspec.structs.replace(one, cluster=name) for one in folded(events(recording))])
    with Asked(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def is_short(pytestconfig) -> bool:
    """Return whether one incident of each kind is asked, and the overviews of the demo's groups: each takes 0.3 s."""
    return pytestconfig.option.markexpr != "prove"


@pytest.fixture(scope="module")
def at_instants(model) -> dict[int | None, list[Incident]]:
    """All incidents after some transitions that changed a cause or a severity, and at the end."""
    rows = model.rows("SELECT DISTINCT a.time FROM anomalies a WHERE a.transition IN ('RECLASSIFIED', 'ESCALATED')")
    times = sorted(row["time"] for row in rows)
    return {at: incidents(model, at=at) for at in (*times[:: len(times) // 8 + 1], FROZEN, None)}


def test_all_fields_of_an_incident_are_of_one_transition(model, at_instants):
    steps = defaultdict(list)
    for row in model.rows("SELECT a.* FROM anomalies a"):
        said = (row["client_id"], row["explanation"], row["first_step"], json.loads(row["evidence"]))
        steps[row["cluster"], row["incident_id"], row["time"], row["sub_cause"]].append(said)
    for listed in at_instants.values():
        for shown_one in listed:
            said = (shown_one.client_id, shown_one.explanation, shown_one.first_step, shown_one.evidence)
            assert said in steps[shown_one.cluster, shown_one.incident_id, shown_one.judged_at, shown_one.sub_cause]
            advice = advice_for(shown_one.code, shown_one.sub_cause)
            assert (shown_one.explanation, shown_one.first_step) == (advice.what, advice.first_step)
    assert sum(map(len, at_instants.values())) > 50


def test_an_incident_alone_is_as_in_the_list(model, at_instants, is_short):
    listed = [
        one for one in at_instants[None]
        if one.cluster == "lab" and (one.resolved_at is None or one.consequences or one.parent)
    ]  # fmt: skip
    kinds = {(one.resolved_at is None, one.consequences > 0, one.parent is None): one for one in listed}
    assert len(kinds) > 3
    for shown_one in kinds.values() if is_short else listed:
        alone = incident(model, shown_one.incident_id)
        assert alone.incident == shown_one
        assert len(alone.absorbed) == shown_one.consequences
        assert {child.parent for child in alone.absorbed} <= {shown_one.incident_id}


def test_tiles_are_the_roots_that_lists_have(model, is_short):
    for at in (FROZEN, None):
        for group in groups(model, at, "lab" if at else None):
            roots = incidents(model, cluster=group.cluster, group=group.group, only_open=True, at=at, unfold=False)
            counted = Counter(one.severity for one in roots)
            tiles = group.incidents.model_dump()
            assert {name: tiles[name] for name in SEVERITY} == {name: counted[name] for name in SEVERITY}
            if is_short and group.cluster != "lab":
                continue
            group_at = find_group(model, group.group, group.cluster, at)
            assert [one.incident_id for one in overview(model, group_at).incidents] == [
                one.incident_id for one in roots
            ]


def test_every_root_is_a_root(model, at_instants):
    """None names a client or a broker with an open incident of its own, and no two have one cause."""
    seen = 0
    for at, listed in at_instants.items():
        everything = [one for one in listed if one.resolved_at is None]
        own = {(one.cluster, one.group, one.subject): one for one in everything if one.code in EXPLAINING}
        roots = incidents(model, only_open=True, at=at, unfold=False)
        of_queues = [one for one in roots if one.queue_id is not None]
        kinds = {(one.cluster, one.group, one.code, one.sub_cause, one.client_id, one.broker) for one in of_queues}
        assert len(of_queues) == len(kinds)
        assert {one.incident_id for one in roots} <= {one.incident_id for one in everything}
        for root in roots:
            for name in {root.client_id, root.broker} - {None, root.subject}:
                explaining = [own.get((root.cluster, group, name)) for group in (root.group, "")]
                worse = [SEVERITY[one.severity].rank > SEVERITY[root.severity].rank for one in explaining if one]
                assert all(worse), (root, explaining)
        seen += len(roots)
    assert seen > 10


def test_a_frozen_client_and_a_dead_connection_are_one_root_each(model):
    frozen = incidents(model, cluster="lab", only_open=True, unfold=False, at=FROZEN)
    assert [(one.code, one.subject, one.consequences) for one in frozen] == [
        ("CLIENT_UNRESPONSIVE", "127.0.0.1@orders-3", 5)
    ]
    dead = incidents(model, cluster="lab", only_open=True, unfold=False)
    assert [(one.sub_cause, one.client_id, one.alike, one.consequences) for one in dead] == [
        ("GHOST_CONNECTION", "127.0.0.1@orders-1", 2, 3)
    ]
