"""Clients of four languages behind real servers: what is concluded of each fault, by polls, hook and both.

`languages_run` records the run; its last step, a second broker of the same name, is not judged here. The short form
judges the recording that is kept; the long form records again, where there are Go and Node. To replace it: run
`python -m tests.instruments.faults.languages_run FOLDER`, then
`tar -cJf tests/live/languages.tar.xz -C FOLDER recording.jsonl run.json`.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from tests.field.test_invariants import restless
from tests.instruments.faults import languages_run
from tests.instruments.faults.case import BOTH, BY_HOOK, HOOK, POLL, SOURCES
from tests.instruments.faults.verdict import concluded_by_source, events, incidents_of
from tests.support.field import Concluded, concluded_of, without_answer
from tests.support.folding import Fold
from tests.support.invariants import violations
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("languages")  # one process unpacks the recording, or records, for all
FAULTS = ("hang", "proxy")
RECORDING = Path(__file__).with_name("languages.tar.xz")


@dataclass(frozen=True)
class Expected:
    """An incident that must open after the begin of a step, at the latest after so many seconds, by these sources."""

    step: str
    code: str
    group: str
    within: float
    by: tuple = SOURCES


EXPECTED = (
    Expected("hang", "QUEUE_STALLED", "audit-group", 150),
    Expected("hang", "QUEUE_STALLED", "bills-group", 160),
    Expected("hang", "MESSAGES_STRANDED", "java-group", 90),  # its offset was reset while its only client was away
    Expected("hang", "POP_NOT_ACKING", "parcels-group", 110, BY_HOOK),
    Expected("hang", "POP_RETURNED", "parcels-group", 230, (POLL, BOTH)),
    Expected("proxy", "PROXY_UNREACHABLE", "", 60, (POLL, BOTH)),
    Expected("proxy", "PROXY_CLIENT_GONE", "letters-group", 60, (HOOK,)),
    Expected("proxy", "PROXY_CLIENT_GONE", "parcels-group", 60, (HOOK,)),
)
MAY = {
    ("hang", "PULL_EXPIRED", "audit-group"),  # Go's client does not pull while all its listeners hang
    ("hang", "POP_RETURNED", "parcels-group"),
    ("proxy", "PROXY_CLIENT_GONE", "fifo-group"),
    ("proxy", "PROXY_CLIENT_GONE", "simple-group"),
    ("proxy", "NO_ACTIVE_CLIENTS_WITH_LAG", "letters-group"),  # Node and Python come back 70 s after their proxy
    ("proxy", "POP_RETURNED", "simple-group"),  # infos: what was handed out when the proxy went
    ("proxy", "POP_RETURNED", "parcels-group"),
    ("proxy", "POP_RETURNED", "letters-group"),
    ("proxy", "STALE_HEARTBEAT", "CID_DefaultHeartBeatSyncerTopic"),  # the proxy's own consumer
}
"""Consequences of a fault that need not be said."""


@dataclass(frozen=True)
class Played:
    """A run, its events, and what each source leads to."""

    run: languages_run.Run
    log: list
    concluded: dict

    def incidents(self, source):
        """Return the incidents by a source."""
        return incidents_in(self.concluded[source].effects)

    def step_of(self, incident):
        """Return the last fault that had begun when an incident opened; empty: there was none."""
        begun = [one for one in self.run.steps if one.kind in FAULTS and one.began <= incident.opened]
        return max(begun, key=lambda one: one.began).kind if begun else ""


def incidents_in(effects):
    """Return the incidents of effects."""
    transitions = {}
    for effect in effects:
        if isinstance(effect, IncidentTransition):
            transitions.setdefault(effect.incident_id, []).append(effect)
    return incidents_of(transitions)


def _record(folder):
    if missing := [tool for tool in ("go", "node", "npm") if shutil.which(tool) is None]:
        pytest.skip(f"there is no {missing[0]} on the path, which one of the clients needs")
    return languages_run.play(folder)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(lambda folder: unpacked(RECORDING, folder), id="recorded"),
        pytest.param(_record, id="live", marks=[pytest.mark.live, pytest.mark.prove]),
    ],
)
def played(request, tmp_path_factory):
    folder = request.param(tmp_path_factory.mktemp("languages"))
    run = msgspec.json.decode((folder / "run.json").read_bytes(), type=languages_run.Run)
    log = [one for one in events(folder) if one.time < run.step("twins").began]
    by = concluded_by_source(log)
    return Played(run, log, by)


def is_about(event, group):
    """Return whether an event is of a group, or of all."""
    return getattr(event, "group", group) in (group, "")


def test_nothing_is_reported_while_all_clients_work(played):
    quiet = played.run.step("quiet")
    for source in SOURCES:
        early = [one for one in played.incidents(source) if quiet.began <= one.opened <= quiet.ended]
        assert not early, source


def test_every_fault_is_said_in_time(played):
    for source in SOURCES:
        for fault in EXPECTED:
            if source in fault.by:
                began = played.run.step(fault.step).began
                said = [
                    (one.opened - began) / 1000
                    for one in played.incidents(source)
                    if (one.code, one.group) == (fault.code, fault.group) and one.opened >= began
                ]
                assert said, (source, fault)
                assert min(said) <= fault.within, (source, fault)


def test_nothing_else_is_said(played):
    """Beside what an incident that is expected explains."""
    expected = MAY | {(one.step, one.code, one.group) for one in EXPECTED}
    began = played.run.step("quiet").began
    for source in SOURCES:
        alerts = [one for one in played.incidents(source) if one.alerted is not None and one.opened >= began]
        strange = [one for one in alerts if (played.step_of(one), one.code, one.group) not in expected]
        assert not strange, source


def test_no_rule_flaps(played):
    """The other invariants are checked with each fold."""
    for source, (effects, start) in played.concluded.items():
        for group in {one.group for one in effects if isinstance(one, IncidentTransition)}:
            mine = [one for one in effects if getattr(one, "group", None) == group]
            assert restless(Concluded(mine, start)) == [], (source, group)


@pytest.mark.parametrize("code", [1, 16, 207])
def test_a_stalled_queue_is_said_though_no_member_answers(played, code):
    """Another answer, one that the collector's account may not ask for, or none: the hook proves the same."""
    log = [without_answer(one, code) for one in played.log if is_about(one, "audit-group")]
    found = incidents_in(concluded_of(log).effects)
    stalled = [one.subject for one in found if one.code == "QUEUE_STALLED"]
    assert stalled[0] == "Audit@broker-a:1"
    assert sorted(stalled) == [f"Audit@broker-a:{number}" for number in range(4)]  # its hung listeners are all it has


def test_a_hook_that_starts_late_leaves_nothing_open(played):
    late = (played.run.step("hang").began + played.run.step("hang").ended) // 2
    log = [one for one in played.log if one.source != HOOK or one.time >= late]
    found = incidents_in(concluded_of(log).effects)
    left = {(one.code, one.group) for one in found if one.resolved is None}
    assert left <= {(one.code, one.group) for one in played.incidents(BOTH) if one.resolved is None}


def test_a_spool_that_is_shipped_late_is_no_loss(played):
    shipped = played.run.step("proxy").began
    kept = played.run.step("quiet").ended
    log = [(shipped if one.source == HOOK and kept < one.time < shipped else one.time, one) for one in played.log]
    fold, effects = Fold(), []
    for at, event in sorted(log, key=lambda one: one[0]):
        effects += fold.push(event, at)
    effects += fold.shard.finish()
    assert violations(effects) == []
    gaps = [one for one in incidents_in(effects) if one.code == "TELEMETRY_GAP"]
    assert {cause for one in gaps for cause in one.sub_causes} == {"HOOK_SILENT", "LATE"}
