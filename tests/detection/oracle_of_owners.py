"""The conditions of rules about owners: who has a queue, and who is expected to have it."""

from collections import Counter

from rebalance_model.entities import MessageQueue
from simulation.client import SimulatedClient
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from tests.detection.conditions import NONE, POLL, SECOND, Condition, Conditions, required
from tests.detection.history import DroppedQueue, History
from tests.detection.oracle_of_groups import subscription
from tests.detection.snapshot import Snapshot

POLLED_WITHIN_MS = 12 * SECOND
"""The time within which the collector polls every reachable client."""


def unassigned(snapshot: Snapshot, _: History) -> Conditions:
    """Yield QUEUE_UNASSIGNED: no client has the queue of the route."""
    for mq in snapshot.routed:
        if snapshot.owners(mq) or not snapshot.members or snapshot.broadcasts:
            continue
        certain = mq not in snapshot.holders and snapshot.is_consistent
        yield Condition("QUEUE_UNASSIGNED", str(mq), required(snapshot, mq, POLL, certain))


def double_owned(snapshot: Snapshot, history: History) -> Conditions:
    """Yield QUEUE_DOUBLE_OWNED: two clients have the queue; if it is ordered, with locks that both think valid."""
    lists = list(snapshot.lists.values())
    if not snapshot.ordered and any(set(one) != set(lists[0]) for one in lists):  # owners may change every second
        for mq in snapshot.routed:
            yield Condition("QUEUE_DOUBLE_OWNED", str(mq))
    for mq, holders in snapshot.holders.items():
        if len(holders) < 2:
            continue
        owners = [(c, q) for c, q in holders if not q.dropped and (not snapshot.ordered or _has_valid_lock(c, q))]
        ids = {c.consumer.config.client_id for c, _ in owners}
        settled = snapshot.now - history.grown_at.get(mq.topic, 0) > 75 * SECOND  # routes are polled every 10 s
        certain = settled and len(ids) >= 2 and ids <= snapshot.members
        certain = certain and all(snapshot.is_reachable(c) for c, _ in owners)
        yield Condition("QUEUE_DOUBLE_OWNED", str(mq), required(snapshot, mq, POLL, certain))


def _has_valid_lock(client: SimulatedClient, queue: CachingProcessQueue) -> bool:
    """Return whether the client regards its lock as valid."""
    return queue.locked and not queue.is_lock_expired(client.clock.now())


def mismatch(snapshot: Snapshot, history: History) -> Conditions:
    """Yield ASSIGNMENT_MISMATCH: the owner is not the expected one, long after the last change."""
    unchanged_for = snapshot.now - max(history.owners_changed_at, history.expected_changed_at)
    for mq, names in history.owners.items():
        expected = snapshot.by_id.get(snapshot.expected.get(mq, ""))
        if (expected is None or expected.name not in names or len(names) > 1) and unchanged_for > 50 * SECOND:
            certain = expected is not None and len(names) == 1
            certain = certain and unchanged_for > 60 * SECOND and snapshot.is_consistent
            yield Condition("ASSIGNMENT_MISMATCH", str(mq), required(snapshot, mq, POLL, certain))


def stalled_rebalance(snapshot: Snapshot, history: History) -> Conditions:
    """Yield REBALANCE_STALLED: the expected owners changed, and no client has taken a queue since."""
    pending = (
        [mq for mq, cid in snapshot.expected.items() if history.owners.get(mq) != (snapshot.by_id[cid].name,)]
        if (set(snapshot.expected.values()) <= snapshot.by_id.keys())
        else [*snapshot.expected]
    )
    expected_at, owners_at = history.expected_changed_at, history.owners_changed_at
    if pending and snapshot.now - expected_at > 50 * SECOND and history.taken_at <= expected_at + 10 * SECOND:
        certain = expected_at > owners_at and snapshot.now - expected_at > 60 * SECOND and snapshot.is_consistent
        # If subscriptions differ, the expected owners alternate.
        certain = certain and len({subscription(client) for client in snapshot.clients}) == 1
        free = [
            mq
            for mq in pending
            if len(snapshot.holders.get(mq, ())) < 2 and not any(q.dropped for _, q in snapshot.holders.get(mq, ()))
        ]
        yield Condition("REBALANCE_STALLED", "", POLL if certain and free and snapshot.is_polled else NONE)


def route_split(snapshot: Snapshot, _: History) -> Conditions:
    """Yield ROUTE_VIEW_SPLIT: a client's route differs from the name server's."""
    for topic, route in snapshot.route.items():
        routes = [c.consumer.topic_subscribe_info_table.get(topic) for c in snapshot.clients]
        outdated = [one for one in routes if one is not None and tuple(one) != route]
        if outdated:
            certain = len(outdated) < len(routes) and _is_split_visible(snapshot, topic, route)
            certain = certain and snapshot.is_consistent
            yield Condition("ROUTE_VIEW_SPLIT", "", POLL if certain and snapshot.is_polled else NONE)


def _is_split_visible(snapshot: Snapshot, topic: str, route: tuple[MessageQueue, ...]) -> bool:
    """Return whether one client's queues fit only the old route, and another's only the new one."""
    ids = tuple(next(iter(snapshot.lists.values()), ()))
    if not snapshot.expected:
        return False
    fits_new = fits_old = False
    strategy = snapshot.clients[0].consumer.config.strategy
    new_plan = snapshot.recorder.plan(strategy, route, ids)
    for client in snapshot.clients:
        client_route = client.consumer.topic_subscribe_info_table.get(topic)
        cid = client.consumer.config.client_id
        owned = {mq for mq, q in client.owned.items() if mq.topic == topic and not q.dropped}
        expected = {mq for mq, one in new_plan.items() if one == cid}
        if client_route is None or any(len(snapshot.holders.get(mq, ())) > 1 for mq in owned):
            return False
        old_plan = snapshot.recorder.plan(strategy, tuple(client_route), ids)
        if tuple(client_route) == route:
            fits_new = fits_new or owned == expected
        else:
            fits_old = fits_old or (owned == {mq for mq, one in old_plan.items() if one == cid} != expected)
    return fits_new and fits_old


def dropped(snapshot: Snapshot, history: History) -> Conditions:
    """Yield ZOMBIE_QUEUE and UNLOCK_PENDING: a client has dropped a queue, and not removed it yet."""
    holds = {(c.name, mq): (c, q) for mq, holders in snapshot.holders.items() for c, q in holders if q.dropped}
    history.dropped = {key: history.dropped.get(key) or DroppedQueue(snapshot.now) for key in holds}
    counts = Counter(mq for _, mq in holds)
    for (name, mq), (client, queue) in holds.items():
        entry = history.dropped[name, mq]
        certain = counts[mq] == 1 and snapshot.is_reachable(client)
        is_expected = snapshot.expected.get(mq) == client.consumer.config.client_id
        age = snapshot.now - entry.since
        if (is_expected or not snapshot.expected) and age > 18 * SECOND:
            zombie = certain and age > 20 * SECOND and is_expected and snapshot.is_consistent
            yield Condition("ZOMBIE_QUEUE", str(mq), required(snapshot, mq, POLL, zombie))
        if queue.try_unlock_times > 0:
            increases = _tries_increase(entry, snapshot.now, queue.try_unlock_times)
            yield Condition("UNLOCK_PENDING", str(mq), required(snapshot, mq, POLL, certain and increases))


def _tries_increase(entry: DroppedQueue, now: int, tries: int) -> bool:
    """Record the client's number of tries; return whether it has increased since a poll was due to have seen it."""
    entry.unlock_tried_since = entry.unlock_tried_since or now
    if now - entry.unlock_tried_since <= POLLED_WITHIN_MS:
        entry.polled_tries = tries
    return tries > entry.polled_tries


def distribution(snapshot: Snapshot, history: History) -> Conditions:
    """Yield CONSUMER_IDLE and ASSIGNMENT_SKEW: members without queues, and unequal numbers of queues."""
    if len(snapshot.members) > len(snapshot.routed) > 0:
        certain = snapshot.is_consistent and snapshot.is_polled and snapshot.route.keys() == snapshot.topics
        yield Condition("CONSUMER_IDLE", "", POLL if certain else NONE)
    counts = Counter(name for names in history.owners.values() for name in names)
    mean = counts.total() / max(len(snapshot.members), 1)
    most = max(counts.values(), default=0)
    if most > 2 * mean * 0.9 and most > mean + 1.5:
        unique = all(len(set(ids)) == len(ids) for ids in snapshot.lists.values())  # no two clients share a client id
        certain = most > 2 * mean and most > mean + 2 and unique and bool(snapshot.expected)
        certain = certain and snapshot.is_consistent and snapshot.is_polled
        yield Condition("ASSIGNMENT_SKEW", "", POLL if certain else NONE)
