"""The conditions of rules about groups that pop, beside those about their members (`oracle_of_groups`)."""

from simulation.client import SimulatedClient
from simulation.pop.client import POLL, POP_THRESHOLD_FOR_QUEUE
from simulation.process import ProcessState
from tests.detection.conditions import HOOK, NONE, SECOND, Condition, Conditions
from tests.detection.conditions import POLL as POLLS
from tests.detection.history import History
from tests.detection.pop_recorder import MINUTE, Calls, Returned
from tests.detection.snapshot import Snapshot

MARGIN = 8
"""A member without messages pops so much more often in a minute, at most."""
LISTED_AFTER_DEATH = 200 * SECOND
"""By hooks alone a member that was killed stays listed until its heartbeats are missed: so long, with its new run."""


def popping_members(snapshot: Snapshot, history: History) -> Conditions:
    """Yield POP_NOT_ACKING and POP_STOPPED of members that speak remoting."""
    for client in (one for one in snapshot.clients if one.pops is not None):
        calls = snapshot.pops.calls.get((snapshot.group, client.name))
        if calls is not None:
            yield from _not_acking(snapshot, client, calls)
            yield from _stopped(snapshot, client, calls)
    yield from _proxys_clients(snapshot)
    for name, client in snapshot.cluster.clients.items():
        died_at = history.died_at.get(name, -LISTED_AFTER_DEATH)
        if client.consumer.config.group == snapshot.group and snapshot.now - died_at < LISTED_AFTER_DEATH:
            cid = client.consumer.config.client_id
            yield Condition("POP_STOPPED", cid)
            yield Condition("STALE_HEARTBEAT", cid)


def _not_acking(snapshot: Snapshot, client: SimulatedClient, calls: Calls) -> Conditions:
    since = max(calls.since, calls.finished_at)
    idle = snapshot.now - since
    table = client.consumer.pop_process_queue_table
    has_messages = any(queue.wait_ack_msg_count > 0 for queue in table.values()) or not snapshot.is_reachable(client)
    if idle >= 58 * SECOND and (has_messages or calls.popped_at > calls.finished_at + 58 * SECOND):
        targets = snapshot.pops.targets[snapshot.group, client.name].values()
        active = sum(snapshot.now - at <= POLL + 10 * SECOND for at in targets)
        many = calls.pops_within(snapshot.now, MINUTE) > active * MINUTE // POLL + MARGIN + 3
        covered = snapshot.hooked_since < since
        certain = idle > 62 * SECOND and many and covered and client.process.state is ProcessState.RUNNING
        yield Condition("POP_NOT_ACKING", client.consumer.config.client_id, HOOK if certain else NONE)


def _proxys_clients(snapshot: Snapshot) -> Conditions:
    """Yield POP_NOT_ACKING and POP_STOPPED of a proxy's clients: allowed where none of them has finished a message."""
    finished = [
        one.at for (group, _), ends in snapshot.pops.finished.items() if group == snapshot.group for one in ends
    ]
    if snapshot.spec.pops in {"PUSH", "SIMPLE"} and snapshot.now - max(finished, default=0) > 58 * SECOND:
        yield Condition("POP_NOT_ACKING", "proxy 127.0.0.1")
        yield Condition("POP_STOPPED", "proxy 127.0.0.1")


def _stopped(snapshot: Snapshot, client: SimulatedClient, calls: Calls) -> Conditions:
    cid, now = client.consumer.config.client_id, snapshot.now
    full = any(
        one.wait_ack_msg_count > POP_THRESHOLD_FOR_QUEUE for one in client.consumer.pop_process_queue_table.values()
    )
    reachable = snapshot.is_reachable(client)
    silent = now - calls.popped_at if calls.popped_at else 0
    hooked = max(snapshot.hooked_since, 0)
    if full or silent > 18 * SECOND or not reachable:
        by_hook = silent > 22 * SECOND and now - hooked > 75 * SECOND and cid in snapshot.members
        by_hook = by_hook and calls.popped_at > hooked and not calls.refused_since
        by_poll = full and reachable and snapshot.is_polled
        yield Condition("POP_STOPPED", cid, (HOOK if by_hook else NONE) | (POLLS if by_poll else NONE))
    elif calls.refused_since and now - calls.refused_since > 28 * SECOND:
        certain = now - calls.refused_since > 32 * SECOND and calls.refused_since > hooked
        yield Condition("POP_STOPPED", cid, HOOK if certain else NONE)


def returned(snapshot: Snapshot, _: History) -> Conditions:
    """Yield POP_RETURNED: messages came back unacknowledged within the last minute, or were refused for long."""
    messages = snapshot.pops.returned.get(snapshot.group, [])
    rejected_at = snapshot.pops.rejected_at.get(snapshot.group)
    is_rejected = rejected_at is not None and snapshot.now - rejected_at <= MINUTE
    if not is_rejected and not any(_may_be_reported(snapshot, one) for one in messages):
        since, last = snapshot.pops.comes_back.get(snapshot.group, (0, 0))
        if last - since >= MINUTE and snapshot.now - last <= MINUTE + 30 * SECOND:  # polls do not show that some refuse
            yield Condition("POP_RETURNED", "")
        return
    certain = is_rejected and rejected_at is not None and snapshot.now - rejected_at <= MINUTE - 2 * SECOND
    certain = certain and all(snapshot.is_hooked(broker) for broker in snapshot.cluster.brokers)
    certain = certain or any(_is_reported(snapshot, one) for one in messages)
    yield Condition("POP_RETURNED", "", HOOK if certain else NONE)


def _may_be_reported(snapshot: Snapshot, message: Returned) -> bool:
    latest = max(message.at + 20 * SECOND, message.known_at or 0) + MINUTE + 2 * SECOND
    return message.at - 2 * SECOND <= snapshot.now <= latest


def _is_reported(snapshot: Snapshot, message: Returned) -> bool:
    known_at = message.known_at
    if known_at is None or known_at - message.at > 10 * SECOND:
        return False  # answers have shown it before the hook could
    if not known_at + 2 * SECOND <= snapshot.now <= known_at + MINUTE - 2 * SECOND:
        return False
    hooked = snapshot.hook_since(message.delivered.queue.broker)
    finished = snapshot.pops.finished[snapshot.group, message.delivered.queue]
    below = any(f.offset < message.delivered.offset and hooked < f.at < message.at for f in finished)
    late = any(f.offset == message.delivered.offset and f.at <= known_at for f in finished)  # an ack without effect
    pulled_at = snapshot.pops.pulled_at.get((snapshot.group, message.delivered.queue.topic), 0)
    is_moved = known_at - pulled_at < 5 * MINUTE  # a member that pulls commits what others have popped
    return (
        below
        and not late
        and not is_moved
        and message.delivered.begin > hooked
        and snapshot.is_hooked(message.delivered.queue.broker)
    )


def held_long(snapshot: Snapshot, _: History) -> Conditions:
    """Yield POP_HELD_LONG: a proxy has renewed a message for more than a minute."""
    for (group, mq), live in snapshot.cluster.world.deliveries.live.items():
        if group != snapshot.group or snapshot.spec.pops not in {"PUSH"}:
            continue
        times = [
            one.begin
            for offset, one in live.items()
            if (group, mq, offset) in snapshot.pops.renewed and (group, mq, offset) not in snapshot.pops.refused
        ]
        age = snapshot.now - min(times, default=snapshot.now)
        if age > 58 * SECOND:
            covered = snapshot.is_hooked(mq.broker) and snapshot.now - age > snapshot.hook_since(mq.broker)
            yield Condition("POP_HELD_LONG", str(mq), HOOK if age > 61 * SECOND and covered else NONE)


def blocked(snapshot: Snapshot, history: History) -> Conditions:
    """Yield ORDERED_QUEUE_STUCK of a queue in order: its commit stands while messages wait."""
    offsets = {mq: (snapshot.committed(mq), snapshot.lag(mq)) for mq in snapshot.routed}
    for mq, (commit, lag) in offsets.items():
        former = history.offsets.get(mq)
        if former is None or commit > former[0] or lag <= 0:
            history.stands_since[mq] = snapshot.now
        if snapshot.spec.pops == "FIFO" and lag > 0 and snapshot.now > history.stands_since[mq]:
            stands = snapshot.now - history.stands_since[mq]
            live = snapshot.cluster.world.deliveries.live.get((snapshot.group, mq), {})
            renewed = [offset for offset in live if (snapshot.group, mq, offset) in snapshot.pops.renewed]
            telemetry = snapshot.telemetry_of(mq.broker)
            held = bool(renewed) and stands > 58 * SECOND and snapshot.hook_since(mq.broker) < snapshot.now - stands
            required = POLLS | (HOOK if held and commit >= 0 else NONE)
            yield Condition("ORDERED_QUEUE_STUCK", str(mq), required & telemetry if commit > 0 else NONE)
    history.offsets = offsets


def lag_grows(snapshot: Snapshot, history: History) -> Conditions:
    """Yield LAG_GROWTH where messages wait: polls show no more of queues that are popped."""
    for mq, (_, lag) in history.offsets.items():
        in_flight = snapshot.cluster.world.deliveries.in_flight(snapshot.group, mq)
        if lag + in_flight > 0:
            yield Condition("LAG_GROWTH", str(mq))


def without_clients(snapshot: Snapshot, history: History) -> Conditions:
    """Yield NO_ACTIVE_CLIENTS_WITH_LAG: no client runs, and messages wait."""
    alive = [*snapshot.clients, *snapshot.proxied]
    running = [one for one in alive if one.process.state is ProcessState.RUNNING]
    for name, client in snapshot.cluster.clients.items():
        if client.process.state is ProcessState.DEAD:
            history.died_at[name] = snapshot.now
    if running:
        history.alive_at = snapshot.now
    for mq in snapshot.routed if snapshot.now - history.alive_at > 0 else ():
        yield Condition("QUEUE_STALLED", str(mq))  # nobody consumes it
    if running:
        return
    lag = sum(max(lag, 0) for _, lag in history.offsets.values())
    certain = not alive and lag > 0 and snapshot.is_polled and all(one.up for one in snapshot.cluster.brokers.values())
    certain = certain and snapshot.spec.pops != "FIFO" and all(commit > 0 for commit, _ in history.offsets.values())
    yield Condition("NO_ACTIVE_CLIENTS_WITH_LAG", "", POLLS if certain else NONE)


def retry_topics(snapshot: Snapshot, _: History) -> Conditions:
    """Yield QUEUE_STALLED where what came back waits: nobody pops, or all members are full."""
    for broker in snapshot.cluster.brokers.values():
        for mq in broker.logs:
            if mq.topic.startswith(f"%RETRY%{snapshot.group}_") and snapshot.lag(mq) > 0:
                yield Condition("QUEUE_STALLED", str(mq))


def consume_disabled(snapshot: Snapshot, history: History) -> Conditions:
    """Yield what follows for a group that may not consume: the retry topic's pulls are refused, and nobody pops."""
    for name, broker in snapshot.cluster.brokers.items():
        config = broker.groups.subscription_group_table.get(snapshot.group)
        if config is not None and not config.consume_enable:
            history.disabled_at = snapshot.now
        if snapshot.now - history.disabled_at < MINUTE:
            yield Condition("PULL_REFUSED", f"%RETRY%{snapshot.group}@{name}:0")
    if history.disabled_at == snapshot.now:
        yield Condition("NO_ACTIVE_CLIENTS_WITH_LAG", "")


def topic_created_again(snapshot: Snapshot, _: History) -> Conditions:
    """Yield OFFSET_REGRESSION: the newest offset of a queue has fallen."""
    for mq, former in snapshot.recorder.former_ends.items():
        if snapshot.newest(mq) < former and mq.topic in snapshot.spec.topics:
            yield Condition("OFFSET_REGRESSION", str(mq))


def mixed_modes(snapshot: Snapshot, _: History) -> Conditions:
    """Yield MIXED_REQUEST_MODE: a topic is popped and pulled."""
    for topic in snapshot.spec.topics:
        last = [table.get((snapshot.group, topic), 0) for table in (snapshot.pops.popped_at, snapshot.pops.pulled_at)]
        if snapshot.now - min(last) <= 62 * SECOND:
            recent = snapshot.now - min(last) <= 22 * SECOND
            hooked = all(snapshot.is_hooked(broker) for broker in snapshot.cluster.brokers)
            yield Condition("MIXED_REQUEST_MODE", "", HOOK if recent and hooked else NONE)


def gone_behind_proxy(snapshot: Snapshot, history: History) -> Conditions:
    """Yield PROXY_CLIENT_GONE: the proxy lists a client whose heartbeats have ended."""
    for name, client in snapshot.cluster.proxied.items():
        if client.group != snapshot.group:
            continue
        if client.process.state is ProcessState.RUNNING:
            history.alive[name] = snapshot.now
        silent = snapshot.now - history.alive.get(name, snapshot.now)
        if silent > 18 * SECOND and (snapshot.cluster.proxy.is_alive(client.client_id) or silent < 135 * SECOND):
            hooked = all(snapshot.is_hooked(broker) for broker in snapshot.cluster.brokers)
            certain = silent > 32 * SECOND and hooked and snapshot.cluster.proxy.is_alive(client.client_id)
            yield Condition("PROXY_CLIENT_GONE", client.client_id, HOOK if certain else NONE)
