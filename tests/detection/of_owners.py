"""Who has what, and should have."""

from collections import Counter

from rebalance_model.client.process_queue import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.client import Client
from tests.detection.facts import Facts
from tests.detection.memory import NONE, POLL, Dropped, Looks, Memory, S, believed, known
from tests.detection.of_groups import subscribed
from tests.detection.spans import Condition

POLLED_WITHIN = 12 * S
"""Every client that answers is asked within so long."""


def unassigned(facts: Facts, _: Memory) -> Looks:
    """QUEUE_UNASSIGNED: in the route, and in nobody's table."""
    for mq in facts.routed:
        if believed(facts, mq) or not facts.members:
            continue
        sure = mq not in facts.held and facts.all_answer
        yield Condition("QUEUE_UNASSIGNED", str(mq), known(facts, mq, POLL, sure))


def double_owned(facts: Facts, memory: Memory) -> Looks:
    """QUEUE_DOUBLE_OWNED: in two tables; of an ordered queue both believe to have its lock."""
    lists = list(facts.lists.values())
    if not facts.ordered and any(set(one) != set(lists[0]) for one in lists):  # queues go to and fro, each second
        for mq in facts.routed:
            yield Condition("QUEUE_DOUBLE_OWNED", str(mq))
    for mq, held in facts.held.items():
        if len(held) < 2:
            continue
        live = [(c, q) for c, q in held if not q.dropped and (not facts.ordered or _believes(c, q))]
        ids = {c.consumer.config.client_id for c, _ in live}
        settled = facts.now - memory.grown.get(mq.topic, 0) > 75 * S  # the collector asks for routes every 10 s
        sure = settled and len(ids) >= 2 and ids <= facts.members and all(facts.answers(c) for c, _ in live)
        yield Condition("QUEUE_DOUBLE_OWNED", str(mq), known(facts, mq, POLL, sure))


def _believes(client: Client, queue: ProcessQueue) -> bool:
    return queue.locked and not queue.is_lock_expired(client.clock.now())


def mismatch(facts: Facts, memory: Memory) -> Looks:
    """ASSIGNMENT_MISMATCH: one owner, and by the strategy another one."""
    settled = facts.now - max(memory.moved_at, memory.expected_at)
    for mq, names in memory.owners.items():
        should = facts.by_id.get(facts.expected.get(mq, ""))
        if (should is None or should.name not in names or len(names) > 1) and settled > 50 * S:
            sure = should is not None and len(names) == 1 and settled > 60 * S and facts.all_answer
            yield Condition("ASSIGNMENT_MISMATCH", str(mq), known(facts, mq, POLL, sure))


def stalled_rebalance(facts: Facts, memory: Memory) -> Looks:
    """REBALANCE_STALLED: other owners are expected, and none has moved since."""
    behind = (
        [mq for mq, cid in facts.expected.items() if memory.owners.get(mq) != (facts.by_id[cid].name,)]
        if (set(facts.expected.values()) <= facts.by_id.keys())
        else [*facts.expected]
    )
    if behind and facts.now - memory.expected_at > 50 * S and memory.moved_at <= memory.expected_at + 10 * S:
        sure = memory.expected_at > memory.moved_at and facts.now - memory.expected_at > 60 * S and facts.all_answer
        sure = sure and len({subscribed(client) for client in facts.clients}) == 1  # else expectations go to and fro
        free = [
            mq
            for mq in behind
            if len(facts.held.get(mq, ())) < 2 and not any(q.dropped for _, q in facts.held.get(mq, ()))
        ]
        yield Condition("REBALANCE_STALLED", "", POLL if sure and free and facts.polls else NONE)


def route_split(facts: Facts, memory: Memory) -> Looks:
    """ROUTE_VIEW_SPLIT: some clients go by another route than the name server's."""
    for topic, route in facts.route.items():
        has = [c.consumer.topic_subscribe_info_table.get(topic) for c in facts.clients]
        behind = [one for one in has if one is not None and tuple(one) != route]
        if behind:
            sure = len(behind) < len(has) and _shows(facts, topic, route) and facts.all_answer
            yield Condition("ROUTE_VIEW_SPLIT", "", POLL if sure and facts.polls else NONE)


def _shows(facts: Facts, topic: str, route: tuple[MessageQueue, ...]) -> bool:
    """Whether somebody has the share of the old route alone, and another that of the new one alone."""
    ids = tuple(next(iter(facts.lists.values()), ()))
    if not facts.expected:
        return False
    ahead = behind = False
    strategy = facts.clients[0].consumer.config.strategy
    new = facts.record.plan(strategy, route, ids)
    for client in facts.clients:
        known = client.consumer.topic_subscribe_info_table.get(topic)
        cid = client.consumer.config.client_id
        mine = {mq for mq, q in client.owned.items() if mq.topic == topic and not q.dropped}
        should = {mq for mq, one in new.items() if one == cid}
        if known is None or any(len(facts.held.get(mq, ())) > 1 for mq in mine):
            return False
        old = facts.record.plan(strategy, tuple(known), ids)
        if tuple(known) == route:
            ahead = ahead or mine == should
        else:
            behind = behind or (mine == {mq for mq, one in old.items() if one == cid} != should)
    return ahead and behind


def dropped(facts: Facts, memory: Memory) -> Looks:
    """ZOMBIE_QUEUE and UNLOCK_PENDING: in a table, and dropped."""
    kept = {(c.name, mq): (c, q) for mq, held in facts.held.items() for c, q in held if q.dropped}
    memory.dropped = {key: memory.dropped.get(key) or Dropped(facts.now) for key in kept}
    counts = Counter(mq for _, mq in kept)
    for (name, mq), (client, queue) in kept.items():
        known_of = memory.dropped[name, mq]
        sure = counts[mq] == 1 and facts.answers(client)
        mine = facts.expected.get(mq) == client.consumer.config.client_id
        if (mine or not facts.expected) and facts.now - known_of.since > 18 * S:
            long = facts.now - known_of.since > 20 * S
            yield Condition(
                "ZOMBIE_QUEUE", str(mq), known(facts, mq, POLL, sure and long and mine and facts.all_answer)
            )
        if queue.try_unlock_times > 0:
            grows = _note_tries(known_of, facts.now, queue.try_unlock_times)
            yield Condition("UNLOCK_PENDING", str(mq), known(facts, mq, POLL, sure and grows))


def _note_tries(kept: Dropped, now: int, tries: int) -> bool:
    """Whether there have been more since a poll has surely seen some."""
    kept.tried_since = kept.tried_since or now
    if now - kept.tried_since <= POLLED_WITHIN:
        kept.first = tries
    return tries > kept.first


def shares(facts: Facts, memory: Memory) -> Looks:
    """CONSUMER_IDLE and ASSIGNMENT_SKEW."""
    if len(facts.members) > len(facts.routed) > 0:
        yield Condition("CONSUMER_IDLE", "", POLL if facts.all_answer and facts.polls else NONE)
    count: dict[str, int] = {}
    for names in memory.owners.values():
        for name in names:
            count[name] = count.get(name, 0) + 1
    mean = sum(count.values()) / max(len(facts.members), 1)
    most = max(count.values(), default=0)
    if most > 2 * mean * 0.9 and most > mean + 1.5:
        once = all(len(set(ids)) == len(ids) for ids in facts.lists.values())  # else it may be two by one id
        sure = most > 2 * mean and most > mean + 2 and facts.all_answer and facts.polls and bool(facts.expected)
        sure = sure and once
        yield Condition("ASSIGNMENT_SKEW", "", POLL if sure else NONE)
