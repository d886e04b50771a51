"""The conditions of rules about queues: their lag, pulls, locks and committed offsets."""

from collections.abc import Iterator

from rebalance_model.entities import MessageQueue
from simulation.client import SimulatedClient
from simulation.message_log import SteadyLog
from simulation.process import ProcessState
from tests.detection.conditions import COMBINED, EITHER, HOOK, NONE, POLL, SECOND, Condition, Conditions, required
from tests.detection.history import History
from tests.detection.recorder import Regression
from tests.detection.snapshot import Snapshot


def stuck(snapshot: Snapshot, history: History) -> Conditions:
    """Yield ORDERED_QUEUE_STUCK or QUEUE_STALLED: lag, and no commit since the previous sample."""
    code, other = ("ORDERED_QUEUE_STUCK", "QUEUE_STALLED")[:: 1 if snapshot.ordered else -1]
    mixed = snapshot.group in snapshot.recorder.mixed_groups
    offsets = {mq: (snapshot.committed(mq), snapshot.lag(mq)) for mq in {*snapshot.routed, *snapshot.holders}}
    for mq, (commit, lag) in offsets.items():
        previous = history.offsets.get(mq)
        if previous is None or commit > previous[0]:
            continue
        owners = snapshot.owners(mq)
        behind = commit >= 0 and lag > 0 and previous[1] > 0
        if snapshot.pulls_itself:
            yield from _reader_stopped(snapshot, mq, behind=behind)
            continue
        cached = bool(owners) and owners[0][1].msg_count > 0
        cut_off = bool(owners) and snapshot.is_cut_off(owners[0][0], mq.broker)
        consumed = bool(owners) and snapshot.is_reachable(owners[0][0]) and not cut_off
        consumes = consumed and not _lacks_subscription(snapshot, mq)
        since = None if consumes else snapshot.recorder.advanced_at.get((snapshot.group, mq))
        if mixed:
            yield Condition(other, str(mq), since=since)
        if snapshot.ordered:
            if lag > 0 or not consumes:  # without a reachable owner the hook does not know the lag
                by_hook = behind and (cached or (not consumed and not cut_off)) and not mixed  # a hook sees no cut
                by_kind = {"poll": behind, "hook": by_hook and _advanced_recently(snapshot, mq)}
                telemetry = frozenset(kind for kind, certain in by_kind.items() if certain)
                yield Condition(code, str(mq), required(snapshot, mq, telemetry), since)
        elif lag > 0 or not consumes:
            telemetry = POLL if mixed else EITHER
            certain = behind and cached and len(owners) == 1
            yield Condition(code, str(mq), required(snapshot, mq, telemetry, certain), since)
    history.offsets = offsets


def _reader_stopped(snapshot: Snapshot, mq: MessageQueue, *, behind: bool) -> Conditions:
    """Yield QUEUE_STALLED of a group that pulls itself: what is pulled is not handed over, or nobody pulls.

    Its commits show nothing, as they come when the application likes. A hook sees no application, and the pulls go on.
    """
    owners = snapshot.owners(mq)
    reads = (
        len(owners) == 1 and snapshot.is_reachable(owners[0][0]) and not snapshot.is_cut_off(owners[0][0], mq.broker)
    )
    if not reads or owners[0][1].msg_count > 0:
        yield Condition("QUEUE_STALLED", str(mq), required(snapshot, mq, POLL, reads and behind))


def _advanced_recently(snapshot: Snapshot, mq: MessageQueue) -> bool:
    return snapshot.now - snapshot.recorder.advanced_at.get((snapshot.group, mq), 0) < 150 * SECOND


def lag_grows(snapshot: Snapshot, history: History) -> Conditions:
    """Yield LAG_GROWTH: the lag does not fall, and has grown."""
    for mq, (commit, lag) in history.offsets.items():
        if lag > 0:
            stopped = snapshot.now - snapshot.recorder.advanced_at.get((snapshot.group, mq), 0) > SECOND
            grows = commit >= 0 and (stopped or _is_owner_too_slow(snapshot, mq)) and mq in snapshot.routed
            grows = grows and not snapshot.pulls_itself  # its lag falls with each commit, not with what it reads
            yield Condition("LAG_GROWTH", str(mq), required(snapshot, mq, POLL, grows))


def _is_owner_too_slow(snapshot: Snapshot, mq: MessageQueue) -> bool:
    """Return whether messages arrive at least twice as fast as the owner's listener consumes them, one by one."""
    log, owners = snapshot.cluster.brokers[mq.broker].logs.get(mq), snapshot.owners(mq)
    if not snapshot.ordered or len(owners) != 1 or not isinstance(log, SteadyLog) or not log.period:
        return False
    [(client, _)] = owners
    return client.settings.work >= 2 * log.period and snapshot.is_reachable(client)


def without_clients(snapshot: Snapshot, _: History) -> Conditions:
    """Yield LOCK_EXPIRED, PULL_EXPIRED and STALE_HEARTBEAT of a group without clients: allowed everywhere.

    A hook reports the member list when a client requests it, so it does not report that the last client has left.
    """
    if not snapshot.clients:
        for broker in snapshot.up:
            for mq in broker.locks.mq_lock_table.get(snapshot.group, {}):
                yield Condition("LOCK_EXPIRED", str(mq))
        for mq in snapshot.routed:
            yield Condition("PULL_EXPIRED", str(mq))
        for client in snapshot.cluster.clients.values():
            if client.consumer.config.group == snapshot.group:
                yield Condition("STALE_HEARTBEAT", client.consumer.config.client_id)


def pull_expired(snapshot: Snapshot, _: History) -> Conditions:
    """Yield PULL_EXPIRED: the last pull is old, by the client's own clock."""
    if snapshot.pulls_itself:
        return
    for mq in () if snapshot.ordered else snapshot.routed:
        if not snapshot.owners(mq):  # no request reports that a client has removed a queue that is not ordered
            yield Condition("PULL_EXPIRED", str(mq))
    for mq, holders in snapshot.holders.items():
        for client, queue in holders:
            age = client.clock.now() - queue.last_pull_timestamp
            if snapshot.is_cut_off(client, mq.broker):  # the client pulls, but the broker receives no request
                yield Condition("PULL_EXPIRED", str(mq))
            if age > 118 * SECOND:
                certain = age > 120 * SECOND and not queue.dropped and snapshot.is_reachable(client)
                certain = certain and len(holders) == 1
                locked = not snapshot.ordered or snapshot.lock_holder(mq) == client.consumer.config.client_id
                telemetry = HOOK if locked and queue.msg_count == 0 else NONE
                telemetry |= POLL if _newest_stamp(client) - queue.last_pull_timestamp > 120 * SECOND else NONE
                yield Condition("PULL_EXPIRED", str(mq), required(snapshot, mq, telemetry, certain))


def pull_refused(snapshot: Snapshot, _: History) -> Conditions:
    """Yield PULL_REFUSED: the group may not consume, or the broker lacks the topic or a current subscription to it."""
    for name in snapshot.cluster.brokers:
        yield Condition("PULL_REFUSED", f"%RETRY%{snapshot.group}@{name}:0")
    for mq, holders in snapshot.holders.items():
        broker = snapshot.cluster.brokers[mq.broker]
        config = broker.groups.find_subscription_group_config(snapshot.group)
        is_disabled = config is None or not config.consume_enable
        if is_disabled or _lacks_subscription(snapshot, mq):
            idle = all(client.consumer.paused or queue.msg_count > 0 or queue.dropped for client, queue in holders)
            certain = is_disabled and not idle and len(holders) == 1 and snapshot.is_reachable(holders[0][0])
            yield Condition("PULL_REFUSED", str(mq), required(snapshot, mq, HOOK, certain))


def _lacks_subscription(snapshot: Snapshot, mq: MessageQueue) -> bool:
    """Return whether the broker lacks the topic, or the subscription to it that the queue's holders send."""
    broker = snapshot.cluster.brokers[mq.broker]
    stored = broker.manager.find_subscription_data(snapshot.group, mq.topic)
    if stored is None or mq.topic not in broker.topics:
        return True
    sent = [client.consumer.subscription_inner.get(mq.topic) for client, _ in snapshot.holders.get(mq, ())]
    return any(stored.sub_version < one.sub_version for one in sent if one is not None)


def _newest_stamp(client: SimulatedClient) -> int:
    """Return the newest timestamp in the client's answers, the lower bound of its clock; epoch milliseconds."""
    queues = client.owned.values()
    return max(max(q.last_lock_timestamp, q.last_pull_timestamp, q.last_consume_timestamp) for q in queues)


def lock_expired(snapshot: Snapshot, _: History) -> Conditions:
    """Yield LOCK_EXPIRED: the lock is old, by the broker's lock table or by the client's timestamp."""
    if not snapshot.ordered:
        return
    for broker, mq, cid, age in _locks(snapshot):
        client = snapshot.by_id.get(cid)
        if cid in snapshot.members and age > 28 * SECOND:
            owns = client is not None and any(c is client for c, _ in snapshot.owners(mq))
            telemetry = EITHER if client is not None and client.process.state is ProcessState.FROZEN else HOOK
            certain = age > 30 * SECOND and owns and cid in snapshot.lists[broker]
            yield Condition("LOCK_EXPIRED", str(mq), required(snapshot, mq, telemetry, certain))
    for mq, holders in snapshot.holders.items():
        for client, queue in holders:
            expired = client.clock.now() - queue.last_lock_timestamp > 28 * SECOND
            if expired or not snapshot.is_reachable(client):  # polls do not see that one broker is unreachable to it
                yield Condition("LOCK_EXPIRED", str(mq))


def lock_orphaned(snapshot: Snapshot, _: History) -> Conditions:
    """Yield LOCK_ORPHANED: the holder of the lock has left, and another client is refused."""
    for broker, mq, cid, age in _locks(snapshot) if snapshot.ordered else ():
        if cid not in snapshot.lists[broker] and age < 62 * SECOND:
            expected = snapshot.by_id.get(snapshot.expected.get(mq, ""))
            refusals = snapshot.recorder.refusals[snapshot.group, mq].values()
            certain = (
                expected is not None
                and snapshot.is_reachable(expected)
                and expected.consumer.config.client_id != cid
                and cid not in snapshot.members
                and age < 59 * SECOND
                and any(one.last > snapshot.now - 3 * SECOND for one in refusals)
            )
            telemetry = EITHER if snapshot.is_consistent else HOOK
            yield Condition("LOCK_ORPHANED", str(mq), required(snapshot, mq, telemetry, certain))
    for (group, mq), at in snapshot.recorder.orphan_refused_at.items():
        if group == snapshot.group and snapshot.now - at < 2 * SECOND:
            yield Condition("LOCK_ORPHANED", str(mq))


def _locks(snapshot: Snapshot) -> Iterator[tuple[str, MessageQueue, str, int]]:
    """Yield the broker, queue, holder and age (milliseconds) of every lock."""
    for broker in snapshot.up:
        for mq, entry in broker.locks.mq_lock_table.get(snapshot.group, {}).items():
            if not mq.is_retry:
                yield broker.name, mq, entry.client_id, broker.clock.now() - entry.last_update_timestamp


def lock_contended(snapshot: Snapshot, _: History) -> Conditions:
    """Yield LOCK_CONTENDED: a live member refuses the lock to another one for long, or the lock alternates."""
    yield from _held_locks(snapshot)
    yield from _alternating_locks(snapshot)


def _held_locks(snapshot: Snapshot) -> Conditions:
    for (group, mq), contended in snapshot.recorder.contended.items():
        lasting = [one.last for one in contended.values() if one.count >= 3 and one.last - one.first > 50 * SECOND]
        if group != snapshot.group or not lasting or mq.broker not in snapshot.lists:
            continue
        is_member = snapshot.lock_holder(mq) in snapshot.lists[mq.broker]
        age = snapshot.now - max(lasting)
        if age <= 21 * SECOND:
            first = min(one.first for one in contended.values())
            never_free = first > snapshot.recorder.free_requested_at.get((group, mq), 0)
            certain = is_member and age < 18 * SECOND and never_free and not mq.is_retry
            yield Condition("LOCK_CONTENDED", str(mq), required(snapshot, mq, HOOK, certain))


def _alternating_locks(snapshot: Snapshot) -> Conditions:
    for (group, mq), handovers in snapshot.recorder.handovers.items():
        if group == snapshot.group and len(handovers) == 4 and snapshot.now - handovers[0][1] <= 61 * SECOND:
            clients, times, members = zip(*handovers, strict=True)
            if clients[:2] == clients[2:]:
                same_members = len(set(members)) == 1
                certain = snapshot.now - times[0] < 58 * SECOND and same_members and not mq.is_retry
                yield Condition("LOCK_CONTENDED", str(mq), required(snapshot, mq, HOOK, certain))


def locks_lost(snapshot: Snapshot, _: History) -> Conditions:
    """Yield BROKER_LOCKS_LOST: a broker has restarted, and a former holder has not locked its queue again."""
    for broker in snapshot.up:
        lost = {
            key: cid
            for key, cid in snapshot.recorder.lost_locks.get(broker.name, {}).items()
            if key[0] == snapshot.group
        }
        uptime = broker.clock.now() - broker.boot_time
        if uptime < 40 * SECOND and (lost or uptime < 3 * SECOND) and snapshot.ordered:
            down_for = snapshot.now - snapshot.recorder.last_down.get(broker.name, 0)
            reachable = [
                cid for cid in lost.values() if cid in snapshot.by_id and snapshot.is_reachable(snapshot.by_id[cid])
            ]
            certain = bool(reachable) and down_for < 35 * SECOND and snapshot.recorder.was_hook_complete(broker.name)
            known = COMBINED if snapshot.recorder.is_time_doubted(broker.name) else HOOK
            yield Condition("BROKER_LOCKS_LOST", broker.name, known if certain else NONE)


def offset_regressions(snapshot: Snapshot, _: History) -> Conditions:
    """Yield OFFSET_REGRESSION: a committed offset decreased and has not reached its former value, or the newest did."""
    for (group, mq), at in snapshot.recorder.regressed_at.items():
        if group == snapshot.group and snapshot.now - at < 8 * SECOND:
            yield Condition("OFFSET_REGRESSION", str(mq))
    for (group, mq), regression in snapshot.recorder.regressions.items():
        if group == snapshot.group and snapshot.cluster.brokers[mq.broker].up:
            certain = _is_lasting(snapshot, regression)
            yield Condition("OFFSET_REGRESSION", str(mq), required(snapshot, mq, HOOK, certain))
    for mq, former in snapshot.recorder.former_ends.items():
        fell = mq in snapshot.holders and snapshot.committed(mq) >= 0 and snapshot.newest(mq) < former
        yield Condition("OFFSET_REGRESSION", str(mq), required(snapshot, mq, POLL, fell))


def _is_lasting(snapshot: Snapshot, regression: Regression) -> bool:
    return snapshot.now - regression.time > 7 * SECOND and regression.high_commit > 0


def duplicates(snapshot: Snapshot, _: History) -> Conditions:
    """Yield DUPLICATE_CONSUMPTION: a new owner starts below the committed offset."""
    recorder = snapshot.recorder
    if any(client.consumer.config.orderly != snapshot.ordered for client in snapshot.clients):
        recorder.mixed_groups.add(snapshot.group)
    if any(snapshot.newest(mq) < former for mq, former in recorder.former_ends.items()):
        yield Condition("DUPLICATE_CONSUMPTION", "")  # a hook alone may not see why the commits fell
    for (group, mq), duplicate in recorder.duplicates.items():
        age = snapshot.now - duplicate.time
        if group == snapshot.group and age < 30 * SECOND:
            if duplicate.recommitted_at is None and age < SECOND and snapshot.committed(mq) >= duplicate.high_commit:
                duplicate.recommitted_at = snapshot.now
            # Hooks report the pulls of one second as a sum, without their order.
            brief = duplicate.recommitted_at is not None and duplicate.recommitted_at - duplicate.time < SECOND
            certain = duplicate.by_new_owner and not brief and snapshot.group not in recorder.mixed_groups
            yield Condition("DUPLICATE_CONSUMPTION", "", required(snapshot, mq, HOOK, certain))
