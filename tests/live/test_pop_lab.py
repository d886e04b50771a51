"""The lab with consumers that pop: a real broker, a real proxy, remoting and gRPC clients, and what is said of them.

The short form has healthy groups; in the long form one consumer is frozen, too. `test_pop_faults` has each fault.
"""

import gzip
import time

import msgspec
import pytest

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.events.decoding import decode
from streaming.lab.lab import Lab
from streaming.log.files import files_of
from tests.live.commands import Command
from tests.live.conftest import eventually
from tests.support.folding import folded

pytestmark = pytest.mark.live
GROUPS = {"pop-group": 2, "fifo-group": 1, "simple-group": 1}
"""The consumers of each group. Each start of a client takes 2 s of processor time."""
START_SECONDS_MAX = 300


@pytest.fixture(scope="module")
def lab_settings(settings_with):
    none, single = {"consumers": 0}, {"consumers": 1}
    return settings_with(
        kafka=False,
        pop=True,
        groups={"orders": none, "audit": none},
        pop_groups={"fifo": single, "simple": single},
        messages_per_second=1,
    )


@pytest.fixture(scope="module")
def lab(lab_settings):
    """A lab whose consumers pop."""
    try:
        yield Lab.up(lab_settings)
    finally:
        if (left := Lab.find(lab_settings)) is not None:
            left.down()


@pytest.fixture(scope="module")
def recorded(lab, tmp_path_factory):
    """A collector of hook and polls, and what it has recorded so far."""
    folder = tmp_path_factory.mktemp("recorded")
    environment = {name.removeprefix("REBALANCE_WATCH_"): value for name, value in lab.environment().items()}
    environment |= {"RUNTIME__ROOT": folder, "SOURCE__PARTITIONS": 1}
    with Command(folder, environment, "collect", "poll", "--spool", str(lab.spool)).start() as collector:
        collector.wait_for("round", START_SECONDS_MAX)
        yield lambda: list(_events(folder / "log"))
        assert collector.interrupt() == 0, collector.said()


def _events(log):
    """Yield what is in the log, which has files for every 10 s."""
    stamp = time.time_ns() // 1_000_000
    for file in files_of(log, 0):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            yield decode(line, key=None, stamp=stamp, keyed=False)


def health(log):
    """Return the last row of each group."""
    return {one.group: one for one in folded(log) if isinstance(one, GroupSnapshot)}


def incidents(log):
    """Return the last transition of each incident."""
    return {one.incident_id: one for one in folded(log) if isinstance(one, IncidentTransition)}


@pytest.mark.timeout(600)  # it starts the lab
def test_healthy_groups_that_pop_are_ok_and_have_their_clients(lab, recorded):
    states = lab.status()
    assert {one.state for one in states} == {"running"}
    assert [one.role for one in states].count("proxy") == 1
    ids = {group: {one.client_id for one in states if one.group == group} for group in GROUPS}
    assert {group: len(of) for group, of in ids.items()} == GROUPS

    def all_well():
        rows = health(recorded())
        assert rows.keys() >= GROUPS.keys()
        assert {rows[group].health for group in GROUPS} == {"OK"}, {group: rows[group] for group in GROUPS}
        for group in ("fifo-group", "simple-group"):
            assert set(rows[group].proxied_clients or ()) == ids[group]
        assert set(rows["pop-group"].members) == ids["pop-group"]
        sharing = {group: msgspec.json.decode(rows[group].coverage)["sharing"] for group in GROUPS}
        assert sharing == {"pop-group": "POPPED", "fifo-group": "PROXIED", "simple-group": "PROXIED"}
        return True

    eventually(all_well)
    assert incidents(recorded()) == {}


@pytest.mark.prove  # in short: the recording of `test_pop_faults`
def test_a_frozen_consumer_that_pops_is_reported_alone_and_resolved(lab, recorded):
    frozen = lab.fault("freeze", client="pop-1")
    due = {"CLIENT_UNRESPONSIVE", "POP_STOPPED"}

    def last_transitions():
        return {one.code: one for one in incidents(recorded()).values()}

    try:
        eventually(lambda: last_transitions().keys() >= due)
    finally:
        lab.cure("freeze")
    eventually(lambda: all(last_transitions()[code].transition == "RESOLVED" for code in due))
    assert last_transitions().keys() <= due | {"POP_RETURNED", "STALE_HEARTBEAT"}  # a parked POP took a message along
    assert {one.client_id for one in last_transitions().values() if one.code in due} == {frozen.client_id}
