"""Two real brokers by one name: one incident of the cluster, by polls, hook and both.

`twins_run` records the run. The short form judges the recording that is kept; the long form records again. To replace
it: run `python -m tests.instruments.faults.twins_run FOLDER`, then
`tar -cJf tests/live/twins.tar.xz -C FOLDER recording.jsonl run.json`.
"""

from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot
from tests.instruments.faults import twins_run
from tests.instruments.faults.case import BOTH, HOOK, POLL, SOURCES
from tests.instruments.faults.verdict import concluded_by_source, events
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("twins")  # one process unpacks the recording, or records, for all
RECORDING = Path(__file__).with_name("twins.tar.xz")
MINE = "BROKER_NAME_SHARED"
SECONDS = 1_000


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(lambda folder: unpacked(RECORDING, folder), id="recorded"),
        pytest.param(twins_run.play, id="live", marks=[pytest.mark.live, pytest.mark.prove]),
    ],
)
def played(request, tmp_path_factory):
    """The run, and what each source leads to."""
    folder = request.param(tmp_path_factory.mktemp("twins"))
    run = msgspec.json.decode((folder / "run.json").read_bytes(), type=twins_run.Run)
    log = events(folder)
    return run, concluded_by_source(log)


def alerts(conclusions, since, until):
    """Return code and group of the incidents that no other one explained at their end, and that opened in a time."""
    last = {one.incident_id: one for one in conclusions.transitions()}
    return {(one.code, one.group) for one in last.values() if not one.absorbed and since <= one.opened_at <= until}


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_reported_before(played, source):
    run, by = played
    assert alerts(by[source], run.began, run.twins_began) == set()


@pytest.mark.parametrize("source", [POLL, BOTH])
def test_two_brokers_by_one_name_are_one_incident_of_the_cluster(played, source):
    run, by = played
    [opened] = [one for one in by[source].transitions(MINE) if one.transition == "OPENED"]
    assert (opened.severity, opened.subject) == ("critical", "broker-a")
    assert opened.time <= run.twins_began + 150 * SECONDS
    assert alerts(by[source], opened.time, run.ended) == {(MINE, "")}
    groups = [one for one in by[source].effects if isinstance(one, GroupSnapshot) and opened.time <= one.time]
    last = {one.group: one for one in groups}
    assert {(one.health, one.health_reason) for one in last.values()} == {("BAD", MINE)}


def test_the_hook_is_in_one_of_them_and_does_not_see_it(played):
    _, by = played
    assert by[HOOK].transitions(MINE) == []
