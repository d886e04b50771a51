"""Consumers in Go (apache/rocketmq-client-go v2.1.2) beside one in Java: what is concluded of their groups.

`go_run` records the run. The short form judges the recording that is kept; the long form records anew, where there is a
Go toolchain. To replace the recording after a change of the hook or of the collector: run `python -m
tests.instruments.faults.go_run FOLDER`, then `tar -cJf tests/live/go.tar.xz -C FOLDER recording.jsonl run.json`.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.events import ConsumerConnection, ConsumerRunningInfo, HeartBeat
from tests.instruments.faults import go_run
from tests.instruments.faults.case import BOTH, HOOK, POLL, SOURCES
from tests.instruments.faults.verdict import events, incidents, is_reread
from tests.support.folding import Fold
from tests.support.go_programs import toolchain
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("go")  # one process unpacks the recording, or records, for all
RECORDING = Path(__file__).with_name("go.tar.xz")
SECONDS = 1_000
ALL_BUT_HOOK = (POLL, BOTH)


@dataclass(frozen=True)
class Played:
    """A run, its events, and the incidents by each source."""

    run: go_run.Run
    log: list
    incidents: dict

    def opened(self, source, code, step):
        """Return the incidents of a code that opened in a step."""
        within = self.run.step(step)
        return [
            one for one in self.incidents[source] if one.code == code and within.began <= one.opened <= within.ended
        ]

    def owners_and_lags(self, source, time):
        """Return the owner's instance and the lag of each queue at a time, by group and queue id."""
        fold, groups = Fold(), {}
        for event in self.log:
            if event.time > time:
                break
            if source in (BOTH, event.source):
                fold.push(event)
        for state in fold.shard.timeline.groups():
            queues = {mq.queue_id: queue for mq, queue in state.queues.items() if not mq.is_retry}
            groups[state.group] = {place: (instance(one.owner), one.lag) for place, one in sorted(queues.items())}
        return groups


def instance(client_id):
    """Return the part of a client id that the run gave."""
    return client_id and client_id.rpartition("@")[2]


def sayings(listed):
    """Return incidents as sets of what they say, to compare."""
    return {(one.subject, instance(one.client_id)) for one in listed}


def _record(folder):
    if toolchain() is None:
        pytest.skip("there is no Go toolchain (`go`) on the path to build the consumer with")
    return go_run.play(folder)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(lambda folder: unpacked(RECORDING, folder), id="recorded"),
        pytest.param(_record, id="live", marks=[pytest.mark.live, pytest.mark.prove]),
    ],
)
def played(request, tmp_path_factory):
    folder = request.param(tmp_path_factory.mktemp("go"))
    run = msgspec.json.decode((folder / "run.json").read_bytes(), type=go_run.Run)
    log = events(folder)
    return Played(run, log, {source: incidents(log, source) for source in SOURCES})


def of_orders(played, client):
    """Return the queues of the ordered group that a client has at the end of the quiet time, as subjects."""
    queues = played.owners_and_lags(BOTH, played.run.step("quiet").ended)["orders-group"]
    return {f"Orders@broker-a:{number}" for number, (owner, _) in queues.items() if owner == client}


def test_the_owners_of_each_queue_are_known_by_each_source(played):
    for source in SOURCES:
        found = played.owners_and_lags(source, played.run.step("quiet").ended)
        owners = {group: [owner for owner, _ in queues.values()] for group, queues in found.items()}
        assert owners == {
            "orders-group": ["o1", "o1", "o2", "o2"],
            "audit-group": ["c1"] * 4,
            "mixed-group": ["mixed-1", "mixed-1", "m1", "m1"],
        }, source


def test_the_lag_of_who_hangs_is_known_and_only_of_that(played):
    for source in ALL_BUT_HOOK:
        quiet, hung = (played.owners_and_lags(source, played.run.step(kind).ended) for kind in ("quiet", "hang"))
        lags = [lag for queues in quiet.values() for _, lag in queues.values()]
        assert max(lags) <= 10, source  # the client commits every 5 s, one message a second
        for queues in hung.values():
            for owner, lag in queues.values():
                assert lag >= 40 if owner in ("o1", "c1") else lag <= 10, (source, owner, lag)


def test_nothing_is_reported_of_healthy_consumers_in_go(played):
    quiet, hang = played.run.step("quiet"), played.run.step("hang")
    for source in SOURCES:
        early = [one for one in played.incidents[source] if quiet.began <= one.opened <= hang.began]
        assert not early, source
        mixed = [one for one in played.incidents[source] if one.group == "mixed-group" and one.opened >= quiet.began]
        assert not mixed, source  # one of Java, one of Go


def test_a_version_in_nanoseconds_is_no_inconsistent_subscription(played):
    subscribed = [
        one for one in played.log if isinstance(one, HeartBeat | ConsumerConnection) and one.group != "mixed-group"
    ]
    versions = {(type(one), s.topic, s.sub_version) for one in subscribed for s in one.subscriptions}
    assert all(version > 10**18 for _, _, version in versions), versions
    for kind in (HeartBeat, ConsumerConnection):  # another version after each change of the client's queues
        assert len({version for of, topic, version in versions if of is kind and topic == "Orders"}) > 1
    codes = {one.code for source in SOURCES for one in played.incidents[source]}
    assert codes.isdisjoint({"SUBSCRIPTION_INCONSISTENT", "STRATEGY_MISMATCH", "MIXED_CONSUME_MODE", "CID_VIEW_SPLIT"})


def test_an_ordered_listener_that_hangs_is_found(played):
    queues = of_orders(played, "o1")
    for source, cause in ((HOOK, "LISTENER_BLOCKED"), (POLL, "LISTENER_HUNG"), (BOTH, "LISTENER_HUNG")):
        stuck = played.opened(source, "ORDERED_QUEUE_STUCK", "hang")
        assert sayings(stuck) == {(queue, "o1") for queue in queues}, source
        assert all(cause in one.sub_causes and one.resolved for one in stuck), source
        assert not played.opened(source, "LOCK_EXPIRED", "hang"), source  # it renews its locks meanwhile


def test_a_concurrent_listener_that_hangs_is_found(played):
    for source, cause in ((HOOK, "LISTENER_BLOCKED"), (POLL, "LISTENER_HUNG"), (BOTH, "LISTENER_HUNG")):
        stalled = played.opened(source, "QUEUE_STALLED", "hang")
        assert sayings(stalled) == {(f"Audit@broker-a:{number}", "c1") for number in range(4)}, source
        assert all(cause in one.sub_causes and one.resolved for one in stalled), source


def test_where_a_listener_hangs_is_shown(played):
    hang = played.run.step("hang")
    for client in ("o1", "c1"):
        answers = [one for one in played.log if isinstance(one, ConsumerRunningInfo) and one.stacks]
        mine = [one for one in answers if instance(one.client_id) == client and hang.began <= one.time <= hang.ended]
        assert mine, client
        hung = [one for one in mine[0].stacks if any(frame.startswith("main.main.func") for frame in one.frames)]
        assert hung, mine[0].stacks
        assert "consumeInner(" in hung[0].frames[-1]
        assert hung[0].state.startswith("chan receive")


def test_a_frozen_ordered_consumer_has_an_expired_lock(played):
    queues = of_orders(played, "o2")
    for source in SOURCES:
        expired = played.opened(source, "LOCK_EXPIRED", "freeze")
        assert sayings(expired) == {(queue, "o2") for queue in queues}, source
        assert all(one.resolved for one in expired), source
    for source in ALL_BUT_HOOK:
        assert [instance(one.client_id) for one in played.opened(source, "CLIENT_UNRESPONSIVE", "freeze")] == ["o2"]
        stuck = played.opened(source, "ORDERED_QUEUE_STUCK", "freeze")
        assert sayings(stuck) == {(queue, "o2") for queue in queues}, source


def test_a_queue_whose_lock_go_keeps_after_a_join_is_said(played):
    """o2 gives it up and does not unlock it, so o3 is refused for 60 s; the hook sees a lock that nobody renews."""
    for source, code in ((HOOK, "LOCK_EXPIRED"), (POLL, "QUEUE_UNASSIGNED"), (BOTH, "QUEUE_UNASSIGNED")):
        [one] = played.opened(source, code, "join")
        assert one.subject in of_orders(played, "o2"), source
        assert one.resolved, source


def test_every_incident_is_resolved_and_none_is_without_a_cause(played):
    named = {
        "LOCK_EXPIRED",
        "CLIENT_UNRESPONSIVE",
        "STALE_HEARTBEAT",
        "ORDERED_QUEUE_STUCK",
        "QUEUE_STALLED",
        # Go's client never unlocks a queue that it gives up, so that the next owner is refused for up to 60 s
        # (consumer.go: removeUnnecessaryMessageQueue).
        "QUEUE_UNASSIGNED",
        "LOCK_ORPHANED",
        "LOCK_CONTENDED",
    }
    for source in SOURCES:
        strange = [one for one in played.incidents[source] if one.code not in named and not is_reread(one)]
        assert not strange, source
        assert all(one.resolved for one in played.incidents[source]), source
