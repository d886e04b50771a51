"""Brokers of two replicas: a master is killed, and another one takes over, or its slave serves reads.

The short form judges a recording of two pairs with slaves that act as masters. The long forms record anew: two and
three such pairs, one pair whose slave only serves reads, one whose master a controller elects, and one with
lockInStrictMode, which needs both replicas for a lock. To replace the recording after a change of the hook or of the
collector: `tar -cJf tests/live/replicas.tar.xz -C FOLDER recording.jsonl killed` of the folder of the long form.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import BrokerStatus, ConsumerConnection
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.policy import Policy
from streaming.base.settings import load_settings
from streaming.lab.lab import Lab
from tests.live.commands import Command
from tests.live.conftest import Watch, eventually
from tests.support.folding import folded
from tests.support.recordings import recorded_rows, unpacked

RECORDING = Path(__file__).with_name("replicas.tar.xz")
ORDERED, CONCURRENT = "orders-group", "audit-group"
BROKER = "broker-a"
INTERVAL_MS = 4_000
POLICY = Policy(poll_interval=INTERVAL_MS, clear_after=10_000)
QUIET_SECONDS = 16
RENEWED_MS = 8_000
"""A lock is renewed every 20 s and valid for 30 s: within this time a client need not miss a renewal."""
CLEARED_SECONDS = 26
"""`clear_after`, the rounds before and after it, and a stall."""
EXPECTED = {"BROKER_UNREACHABLE", "TELEMETRY_GAP", "BROKER_LOCKS_LOST"}
"""What the loss of a master leads to."""
REREADS = {"OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION"}
"""Of severity info: the replica that takes over has older offsets."""


@dataclass
class Recording:
    """The telemetry of one run, and when the master was killed (epoch ms)."""

    events: list
    killed: int

    def incidents(self, *sources):
        """Return the incidents after the kill that this telemetry leads to: code, and its transitions."""
        by_key = {}
        for effect in folded((event for event in self.events if event.source in sources), POLICY):
            if isinstance(effect, IncidentTransition) and effect.time >= self.killed - INTERVAL_MS:
                by_key.setdefault((effect.code, effect.subject), []).append(effect)
        return by_key

    def after(self, kind):
        """Return the answers of the killed master's broker after the kill."""
        return [
            one for one in self.events if type(one) is kind and one.broker == BROKER and one.asked > self.killed
        ]  # BrokerStatus also of hooks


@contextmanager
def lab_of(folder, pairs, replication, **properties):
    """Run a lab of pairs; yield its settings, the lab and what its clients answer."""
    settings = load_settings(
        runtime={"root": folder / "root", "jars": load_settings().runtime.jars},
        lab={"brokers": pairs, "replication": replication, "broker": properties, "kafka": False},
    )
    try:
        lab = Lab.up(settings)
        watch = Watch(lab.name_server)
        for group in settings.lab.groups.values():
            eventually(lambda group=group: watch.is_shared_out(group, pairs))
        yield settings, lab, watch
    finally:
        if (left := Lab.find(settings)) is not None:
            left.down()


def read(folder):
    """Return the recording that a run has left in this folder."""
    stamp = time.time_ns() // 1_000_000
    rows = recorded_rows(folder / "recording.jsonl", 1)
    killed = int((folder / "killed").read_text())
    return Recording([decode(row.value, key=None, stamp=stamp, keyed=False) for line in rows for row in line], killed)


def record(folder, lab, seconds, back=None):
    """Record hooks and polls before a master is killed and for so long after it; or after it is ``back``."""
    environment = {
        "COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode(),
        "COLLECTOR__INTERVAL_MS": INTERVAL_MS,
        "COLLECTOR__DEADLINE_MS": INTERVAL_MS - 100,
    }
    spool = ("--spool", str(lab.spool))
    collect = Command(folder, environment, "collect", "poll", "--to", folder / "recording.jsonl", *spool)
    with collect.start() as collector:
        collector.wait_for("round", 300)
        time.sleep(QUIET_SECONDS)
        (folder / "killed").write_text(str(lab.fault("broker-kill", client=BROKER).time))
        if back:
            eventually(back)
        time.sleep(seconds)
        assert collector.interrupt() == 0, collector.said()
    return read(folder)


def codes(incidents):
    return {code for code, _ in incidents}


def is_resolved(incidents, code):
    return [steps[-1].transition for key, steps in incidents.items() if key[0] == code] == ["RESOLVED"]


def test_a_slave_acts_as_master_and_nothing_is_invented(tmp_path):
    check_acting(read(unpacked(RECORDING, tmp_path)))


@pytest.mark.live
@pytest.mark.prove
@pytest.mark.parametrize("pairs", [2, 3])
def test_a_slave_that_acts_as_master_is_asked(tmp_path, pairs):
    with lab_of(tmp_path, pairs, "acting") as (settings, lab, watch):
        owners = {group.group: watch.owners(group.group, group.topic) for group in settings.lab.groups.values()}
        recording = record(tmp_path, lab, CLEARED_SECONDS, lambda: watch.masters().get(BROKER) == 1)
        for group in settings.lab.groups.values():  # asked where clients are
            eventually(lambda group=group: watch.owners(group.group, group.topic) == owners[group.group])
    check_acting(recording)


def check_acting(recording):
    """Check that the slave was asked in its master's place, and that the incidents are those of the loss."""
    statuses = recording.after(BrokerStatus)
    assert {one.broker_id for one in statuses if one.error is None and one.source == "poll"} == {1}
    assert {one.broker_id for one in recording.after(ConsumerConnection)[1:]} <= {0, 1}
    polled, both = recording.incidents("poll"), recording.incidents("poll", "hook")
    taken_over = min(one.time for one in statuses if one.error is None)
    late = {"LOCK_EXPIRED"} if taken_over - recording.killed > RENEWED_MS else set()  # on a machine that stood still
    assert codes(polled) - REREADS - late <= {"BROKER_UNREACHABLE"}
    assert codes(both) - REREADS - late <= EXPECTED
    assert is_resolved(both, "BROKER_UNREACHABLE")
    assert {key[1] for key in both if key[0] in EXPECTED} == {BROKER}
    assert codes(recording.incidents("hook")) - REREADS - late <= EXPECTED


@pytest.mark.live
@pytest.mark.prove
@pytest.mark.parametrize("replication", ["slave", "controller", "strict"])
def test_a_pair_without_its_master(tmp_path, replication):
    strict = replication == "strict"
    with lab_of(tmp_path, 1, "acting" if strict else replication, lockInStrictMode=strict) as (settings, lab, watch):
        owners = {group.group: watch.owners(group.group, group.topic) for group in settings.lab.groups.values()}
        recording = record(tmp_path, lab, 60)
        for group in _groups(settings):
            eventually(lambda group=group: watch.owners(group.group, group.topic) == owners[group.group])
    both = recording.incidents("poll", "hook")
    elected = replication == "controller"
    assert {one.error is None for one in recording.after(BrokerStatus)[2:]} == {replication != "slave"}
    assert {one.broker_id for one in recording.after(ConsumerConnection)[2:]} == {0 if elected else 1}
    assert all(one.error is None for one in recording.after(ConsumerConnection)[2:])
    without_locks = set() if elected else {"LOCK_EXPIRED", "ORDERED_QUEUE_STUCK", "LOCK_CONTENDED"}
    assert codes(both) - REREADS <= EXPECTED | without_locks
    assert ("LOCK_EXPIRED" in codes(both)) == (not elected)  # no replica grants a lock
    assert is_resolved(both, "BROKER_UNREACHABLE") == (replication != "slave")
    assert all(one.group != CONCURRENT for (code, _), steps in both.items() if code not in REREADS for one in steps)


def _groups(settings):
    return settings.lab.groups.values()
