"""The conditions of rules about members and their declarations, brokers and telemetry sources."""

from collections import Counter

from rebalance_model.entities import MessageQueue
from simulation.broker import Broker
from simulation.client import SimulatedClient
from simulation.process import ProcessState
from simulation.scheduler import MS
from tests.detection.conditions import COMBINED, EITHER, HOOK, NONE, POLL, SECOND, Condition, Conditions
from tests.detection.history import STORM_WINDOW_MS, History
from tests.detection.snapshot import Snapshot


def declarations(snapshot: Snapshot, _: History) -> Conditions:
    """Yield the conditions of members that declare different things.

    STRATEGY_MISMATCH, MIXED_CONSUME_MODE and SUBSCRIPTION_INCONSISTENT of push consumers; MIXED_MEMBERS where another
    kind, or one of another message model, is among them.
    """
    listed = [c for c in snapshot.clients if c.consumer.config.client_id in snapshot.members]
    members = [c for c in listed if not snapshot.differs(c)]
    declared = [
        (c, (c.consumer.config.strategy.java_class, c.consumer.config.orderly, subscription(c))) for c in members
    ]
    reachable = [one for c, one in declared if snapshot.is_reachable(c)]
    codes = {"STRATEGY_MISMATCH": POLL, "MIXED_CONSUME_MODE": POLL, "SUBSCRIPTION_INCONSISTENT": EITHER}
    reporting = {"poll": snapshot.is_polled, "hook": any(snapshot.is_hooked(broker.name) for broker in snapshot.up)}
    reporters = frozenset(name for name, reports in reporting.items() if reports)
    for place, (code, telemetry) in enumerate(codes.items()):
        if len({one[place] for _, one in declared}) > 1:
            certain = len({one[place] for one in reachable}) > 1 and snapshot.is_consistent
            yield Condition(code, "", telemetry & reporters if certain else NONE)
    if len({one[2] for _, one in declared}) == 1 and _is_outdated(snapshot, dict(declared[0][1][2])):
        yield Condition("SUBSCRIPTION_INCONSISTENT", "", NONE)
    if 0 < len(members) < len(listed):
        certain = snapshot.is_consistent and all(snapshot.is_reachable(c) for c in listed)
        yield Condition("MIXED_MEMBERS", "", EITHER & reporters if certain else NONE)


def _is_outdated(snapshot: Snapshot, declared: dict[str, str]) -> bool:
    """Return whether a broker filters by an expression that no member declares: the one it has has a higher version."""
    infos = [broker.manager.consumer_table.get(snapshot.group) for broker in snapshot.up]
    tables = [info.subscription_table for info in infos if info is not None]
    return any(declared.get(t, data.sub_string) != data.sub_string for table in tables for t, data in table.items())


def subscription(client: SimulatedClient) -> tuple[tuple[str, str], ...]:
    """Return the topics, without retry topics, and their expressions."""
    table = client.consumer.subscription_inner
    return tuple(sorted((topic, one.sub_string) for topic, one in table.items() if not topic.startswith("%RETRY%")))


def client_id_collision(snapshot: Snapshot, _: History) -> Conditions:
    """Yield CLIENT_ID_COLLISION: two running clients with one client id."""
    ids = Counter(c.consumer.config.client_id for c in snapshot.clients if c.process.state is ProcessState.RUNNING)
    for cid, count in ids.items():
        if count > 1 and cid in snapshot.members:
            sharing = [c for c in snapshot.clients if c.consumer.config.client_id == cid]
            reachable = all(snapshot.is_reachable(c) and snapshot.answers(c) for c in sharing)
            yield Condition("CLIENT_ID_COLLISION", cid, snapshot.telemetry if reachable else NONE)


def clients(snapshot: Snapshot, _: History) -> Conditions:
    """Yield CLIENT_UNRESPONSIVE and CLOCK_SKEW of members."""
    for client in snapshot.clients:
        cid = client.consumer.config.client_id
        if cid in snapshot.members and not snapshot.is_reachable(client):
            unreachable = client.process.state is ProcessState.FROZEN or all(
                snapshot.is_cut_off(client, name) for name in snapshot.lists
            )
            certain = unreachable and snapshot.is_polled and snapshot.answers(client)
            yield Condition("CLIENT_UNRESPONSIVE", cid, POLL if certain else NONE)
        offset = client.settings.clock_offset
        if abs(offset) > 5 * SECOND and cid in snapshot.members:
            busy = any(snapshot.lag(mq) > 0 or snapshot.ordered for mq in client.owned)
            measurable = offset > 6 * SECOND or offset < -16 * SECOND  # a correct clock may give a stamp 9 s old
            certain = measurable and snapshot.is_reachable(client) and snapshot.is_polled and busy
            certain = certain and snapshot.answers(client)
            yield Condition("CLOCK_SKEW", cid, POLL if certain else NONE)


def stale_heartbeats(snapshot: Snapshot, _: History) -> Conditions:
    """Yield STALE_HEARTBEAT: the newest heartbeat that a broker took of a client id is old, or it takes none."""
    for broker in snapshot.up:
        refused_at = broker.refused_heartbeats.get(snapshot.group)
        for client in snapshot.clients if refused_at is not None or not snapshot.has_group(broker.name) else ():
            reports = snapshot.is_hooked(broker.name) and snapshot.is_reachable(client)
            certain = refused_at is not None and snapshot.now - refused_at > 35 * SECOND and reports
            required = HOOK if certain else POLL if _is_unregistered(snapshot, broker.name, client) else NONE
            yield Condition("STALE_HEARTBEAT", client.consumer.config.client_id, required)
        info = broker.manager.consumer_table.get(snapshot.group)
        newest: dict[str, int] = {}
        for one in info.channel_info_table.values() if info is not None else ():
            newest[one.client_id] = max(newest.get(one.client_id, 0), one.last_update_timestamp)
        for cid, at in newest.items():
            age = broker.clock.now() - at
            if age > 58 * SECOND:
                certain = age > 60 * SECOND and snapshot.is_hooked(broker.name) and snapshot.has_group(broker.name)
                yield Condition("STALE_HEARTBEAT", cid, HOOK if certain else NONE)


def _is_unregistered(snapshot: Snapshot, broker: str, client: SimulatedClient) -> bool:
    """Return whether only other brokers list a client, since this one, which has queues of the group, lacks it."""
    cid, serves = client.consumer.config.client_id, any(mq.broker == broker for mq in snapshot.routed)
    return serves and snapshot.is_polled and cid in snapshot.members and cid not in snapshot.lists.get(broker, ())


def group(snapshot: Snapshot, history: History) -> Conditions:
    """Yield NO_ACTIVE_CLIENTS_WITH_LAG and CID_VIEW_SPLIT (the brokers' member lists differ)."""
    if history.had_members and not snapshot.members and snapshot.up:
        lag = sum(max(snapshot.lag(mq), 0) for mq in history.offsets if snapshot.cluster.brokers[mq.broker].up)
        certain = lag > 0 and snapshot.is_polled and len(snapshot.up) == len(snapshot.cluster.brokers)
        yield Condition("NO_ACTIVE_CLIENTS_WITH_LAG", "", POLL if certain else NONE)
    lists = [set(ids) for ids in snapshot.lists.values()]
    if any(one != lists[0] for one in lists):
        running = {
            cid
            for cid in snapshot.members
            if cid in snapshot.by_id and snapshot.by_id[cid].process.state is ProcessState.RUNNING
        }
        certain = any(one & running != lists[0] & running for one in lists)
        yield Condition("CID_VIEW_SPLIT", "", snapshot.telemetry if certain else NONE)


def retries(snapshot: Snapshot, _: History) -> Conditions:
    """Yield MESSAGES_RETRIED: messages were sent to the group's retry topic; no scenario has them for long enough."""
    retry = f"%RETRY%{snapshot.group}"
    if any(snapshot.newest(MessageQueue(retry, name, 0)) for name in snapshot.cluster.brokers):
        yield Condition("MESSAGES_RETRIED", "", NONE)


def dead_letters(snapshot: Snapshot, _: History) -> Conditions:
    """Yield MESSAGES_DEAD_LETTERED: a message came to a broker's dead-letter topic within the last ten minutes."""
    fresh = [broker for broker in snapshot.cluster.brokers.values() if _is_dead_letter_fresh(snapshot, broker)]
    if fresh:
        certain = snapshot.is_polled and any(broker.up for broker in fresh)
        yield Condition("MESSAGES_DEAD_LETTERED", "", POLL if certain else NONE)


def _is_dead_letter_fresh(snapshot: Snapshot, broker: Broker) -> bool:
    log, now = broker.logs.get(MessageQueue(f"%DLQ%{snapshot.group}", broker.name, 0)), broker.world.scheduler.now
    newest = log.max_offset(now) if log is not None else 0
    return log is not None and newest > 0 and now - log.arrival(newest - 1) <= 600 * SECOND * MS


def stranded(snapshot: Snapshot, _: History) -> Conditions:
    """Yield MESSAGES_STRANDED: messages wait in queues that a topic has lost.

    Hooks see no route: by them alone, such a queue may be one that no member has taken.
    """
    code = "ORDERED_QUEUE_STUCK" if snapshot.ordered else "QUEUE_STALLED"
    for mq in snapshot.removed:
        yield Condition(code, str(mq))
    brokers = snapshot.cluster.brokers.values()  # those that are down, too: their messages wait all the same
    consumed = {t for b in brokers for t in b.offsets.which_topic_by_consumer(snapshot.group)}
    if any(topic not in snapshot.topics and not topic.startswith("%RETRY%") for topic in consumed):
        yield Condition("MESSAGES_STRANDED", "")  # a member that subscribed more topics has left
    removed = [mq for mq in snapshot.removed if snapshot.committed(mq) > 0 and snapshot.lag(mq) > 0]
    if removed:
        certain = snapshot.is_polled and all(snapshot.cluster.brokers[mq.broker].up for mq in removed)
        yield Condition("MESSAGES_STRANDED", "", POLL if certain else NONE)


def topics_not_found(snapshot: Snapshot, _: History) -> Conditions:
    """Yield TOPIC_NOT_FOUND: a member subscribes a topic that never had a queue."""
    if any(snapshot.cluster.topics[topic].queues == 0 for topic in snapshot.topics):
        certain = bool(snapshot.members) and snapshot.is_polled and snapshot.is_consistent
        yield Condition("TOPIC_NOT_FOUND", "", POLL if certain else NONE)


def sources(snapshot: Snapshot, _: History) -> Conditions:
    """Yield BROKER_UNREACHABLE and TELEMETRY_GAP."""
    recorder = snapshot.recorder
    for broker in snapshot.cluster.brokers.values():
        has_group = snapshot.group in broker.groups.subscription_group_table
        if not broker.up:
            yield Condition("BROKER_UNREACHABLE", broker.name, POLL if has_group and snapshot.is_polled else NONE)
        down = recorder.down_since.get(broker.name)
        if down is not None or snapshot.now - recorder.last_down.get(broker.name, 0) < 50 * SECOND:
            certain = down is not None and snapshot.is_polled and has_group
            certain = certain and recorder.was_hook_complete(broker.name)
            yield Condition("TELEMETRY_GAP", broker.name, COMBINED if certain else NONE)
    down = recorder.down_since.get("collector")
    if down is not None or snapshot.now - recorder.last_down.get("collector", 0) < 40 * SECOND:
        certain = down is not None and all(snapshot.is_hooked(broker.name) for broker in snapshot.up)
        yield Condition("TELEMETRY_GAP", "", COMBINED if certain else NONE)


def storm(snapshot: Snapshot, history: History) -> Conditions:
    """Yield REBALANCE_STORM: the same causes repeat within 5 minutes."""
    if snapshot.now - history.differing_at <= STORM_WINDOW_MS:
        yield Condition("REBALANCE_STORM", "")  # a sample a second may miss that the table was empty
    if history.repeated_causes(snapshot.now) >= 3 or history.rejoins(snapshot.now) > 6:
        member_changes, subscription_changes = history.certain_repeats(snapshot.now)
        known = EITHER if member_changes > 8 else HOOK if member_changes + subscription_changes > 8 else NONE
        yield Condition("REBALANCE_STORM", "", snapshot.telemetry & known)
