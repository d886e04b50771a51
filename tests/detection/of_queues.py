"""Queues that wait, and the locks and offsets of them."""

from collections.abc import Iterator

from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.client import Client
from rebalance_model.simulation.message_log import SteadyLog
from rebalance_model.simulation.process import ProcessState
from tests.detection.facts import Facts, Fallen
from tests.detection.memory import BOTH, HOOK, NONE, POLL, Looks, Memory, S, believed, known
from tests.detection.spans import Condition


def stuck(facts: Facts, memory: Memory) -> Looks:
    """ORDERED_QUEUE_STUCK and QUEUE_STALLED: lag, and no commit since the look before."""
    code, other = ("ORDERED_QUEUE_STUCK", "QUEUE_STALLED")[:: 1 if facts.ordered else -1]
    mixed = facts.group in facts.record.mixed
    offsets = {mq: (facts.committed(mq), facts.lag(mq)) for mq in {*facts.routed, *facts.held}}
    for mq, (commit, lag) in offsets.items():
        before = memory.offsets.get(mq)
        if before is None or commit > before[0]:
            continue
        owners = believed(facts, mq)
        well = commit >= 0 and lag > 0 and before[1] > 0
        cached = bool(owners) and owners[0][1].msg_count > 0
        cut = bool(owners) and facts.is_cut(owners[0][0], mq.broker)
        alive = bool(owners) and facts.answers(owners[0][0]) and not cut
        since = None if alive else facts.record.advanced.get((facts.group, mq))
        if mixed:
            yield Condition(other, str(mq), since=since)
        if facts.ordered:
            nobody = not alive  # whether anything waits can't be told then by the hook
            if lag > 0 or nobody:
                by_hook = well and (cached or (nobody and not cut)) and not mixed  # a hook sees no cut
                surely = {"poll": well, "hook": by_hook and _moved_lately(facts, mq)}
                yield Condition(code, str(mq), known(facts, mq, frozenset(t for t, so in surely.items() if so)), since)
        elif lag > 0 or not alive:
            telling = POLL if mixed else BOTH
            yield Condition(code, str(mq), known(facts, mq, telling, well and cached and len(owners) == 1), since)
    memory.offsets = offsets


def _moved_lately(facts: Facts, mq: MessageQueue) -> bool:
    return facts.now - facts.record.advanced.get((facts.group, mq), 0) < 150 * S


def lag_grows(facts: Facts, memory: Memory) -> Looks:
    """LAG_GROWTH: lag that does not fall, and has grown."""
    for mq, (commit, lag) in memory.offsets.items():
        if lag > 0:
            stands = facts.now - facts.record.advanced.get((facts.group, mq), 0) > S
            grows = commit >= 0 and (stands or _is_too_slow(facts, mq)) and mq in facts.routed
            yield Condition("LAG_GROWTH", str(mq), known(facts, mq, POLL, grows))


def _is_too_slow(facts: Facts, mq: MessageQueue) -> bool:
    """Whether messages come twice as fast as the owner's listener, which takes one after the other, can take them."""
    log, owners = facts.cluster.brokers[mq.broker].logs.get(mq), believed(facts, mq)
    if not facts.ordered or len(owners) != 1 or not isinstance(log, SteadyLog) or not log.period:
        return False
    [(client, _)] = owners
    return client.settings.work >= 2 * log.period and facts.answers(client)


def of_the_dead(facts: Facts, _: Memory) -> Looks:
    """Nobody lives who would ask a broker for the members: its hook can't know yet that they are gone."""
    if not facts.clients:
        for broker in facts.up:
            for mq in broker.locks.mq_lock_table.get(facts.group, {}):
                yield Condition("LOCK_EXPIRED", str(mq))
        for mq in facts.routed:
            yield Condition("PULL_EXPIRED", str(mq))
        for client in facts.cluster.clients.values():
            if client.consumer.config.group == facts.group:
                yield Condition("STALE_HEARTBEAT", client.consumer.config.client_id)


def pull_expired(facts: Facts, _: Memory) -> Looks:
    """PULL_EXPIRED: by the client's own stamp. Who gives up a queue that is not ordered says so to nobody."""
    for mq in () if facts.ordered else facts.routed:
        if not believed(facts, mq):
            yield Condition("PULL_EXPIRED", str(mq))
    for mq, held in facts.held.items():
        for client, queue in held:
            age = client.clock.now() - queue.last_pull_timestamp
            if facts.is_cut(client, mq.broker):  # it pulls in vain: for the broker it does not
                yield Condition("PULL_EXPIRED", str(mq))
            if age > 118 * S:
                sure = age > 120 * S and not queue.dropped and facts.answers(client) and len(held) == 1
                locked = not facts.ordered or _holder(facts, mq) == client.consumer.config.client_id
                told = HOOK if locked and queue.msg_count == 0 else NONE
                told |= POLL if _newest_stamp(client) - queue.last_pull_timestamp > 120 * S else NONE
                yield Condition("PULL_EXPIRED", str(mq), known(facts, mq, told, sure))


def _newest_stamp(client: Client) -> int:
    """The client's own time, as far as its answers tell it."""
    queues = client.owned.values()
    return max(max(q.last_lock_timestamp, q.last_pull_timestamp, q.last_consume_timestamp) for q in queues)


# Locks


def _holder(facts: Facts, mq: MessageQueue) -> str | None:
    broker = facts.cluster.brokers[mq.broker]
    entry = broker.locks.mq_lock_table.get(facts.group, {}).get(mq) if broker.up else None
    return entry.client_id if entry is not None else None


def lock_expired(facts: Facts, _: Memory) -> Looks:
    """LOCK_EXPIRED, by the brokers' tables and the clients' stamps."""
    if not facts.ordered:
        return
    for broker, mq, cid, age in _locks(facts):
        client = facts.by_id.get(cid)
        if cid in facts.members and age > 28 * S:
            holds = client is not None and any(c is client for c, _ in believed(facts, mq))
            told = BOTH if client is not None and client.process.state is ProcessState.FROZEN else HOOK
            sure = age > 30 * S and holds and cid in facts.lists[broker]
            yield Condition("LOCK_EXPIRED", str(mq), known(facts, mq, told, sure))
    for mq, held in facts.held.items():
        for client, queue in held:
            if client.clock.now() - queue.last_lock_timestamp > 28 * S or not facts.answers(client):
                yield Condition("LOCK_EXPIRED", str(mq))  # polls know nothing of who is cut off from one broker alone


def lock_orphaned(facts: Facts, _: Memory) -> Looks:
    """LOCK_ORPHANED: the lock of a client that is gone, and somebody who is refused it."""
    for broker, mq, cid, age in _locks(facts) if facts.ordered else ():
        if cid not in facts.lists[broker] and age < 62 * S:
            heir = facts.by_id.get(facts.expected.get(mq, ""))
            asks = heir is not None and facts.answers(heir) and heir.consumer.config.client_id != cid
            asks = asks and cid not in facts.members and age < 59 * S
            refused = any(a.last > facts.now - 3 * S for a in facts.record.asked[facts.group, mq].values())
            told = BOTH if facts.all_answer else HOOK
            yield Condition("LOCK_ORPHANED", str(mq), known(facts, mq, told, asks and refused))
    for (group, mq), at in facts.record.orphaned.items():
        if group == facts.group and facts.now - at < 2 * S:
            yield Condition("LOCK_ORPHANED", str(mq))


def _locks(facts: Facts) -> Iterator[tuple[str, MessageQueue, str, int]]:
    """Broker, queue, holder and age of every lock."""
    for broker in facts.up:
        for mq, entry in broker.locks.mq_lock_table.get(facts.group, {}).items():
            if not mq.is_retry:
                yield broker.name, mq, entry.client_id, broker.clock.now() - entry.last_update_timestamp


def lock_contended(facts: Facts, _: Memory) -> Looks:
    """LOCK_CONTENDED: refused again and again by a member that lives; or taken to and fro."""
    for (group, mq), asked in facts.record.contended.items():
        lasting = [a.last for a in asked.values() if a.count >= 3 and a.last - a.first > 50 * S]
        if group != facts.group or not lasting or mq.broker not in facts.lists:
            continue
        lives, age = _holder(facts, mq) in facts.lists[mq.broker], facts.now - max(lasting)
        if age <= 21 * S:
            kept = min(a.first for a in asked.values()) > facts.record.freed.get((group, mq), 0)
            sure = lives and age < 18 * S and kept and not mq.is_retry
            yield Condition("LOCK_CONTENDED", str(mq), known(facts, mq, HOOK, sure))
    for (group, mq), taken in facts.record.takers.items():
        if group == facts.group and len(taken) == 4 and facts.now - taken[0][1] <= 61 * S:
            clients, times, among = zip(*taken, strict=True)
            if clients[:2] == clients[2:]:
                alike = len(set(among)) == 1  # no client came or went
                sure = facts.now - times[0] < 58 * S and alike and not mq.is_retry
                yield Condition("LOCK_CONTENDED", str(mq), known(facts, mq, HOOK, sure))


def locks_lost(facts: Facts, _: Memory) -> Looks:
    """BROKER_LOCKS_LOST: a broker has restarted, and who held its locks has not locked again."""
    for broker in facts.up:
        lost = {
            key: held for key, held in facts.record.lost_locks.get(broker.name, {}).items() if key[0] == facts.group
        }
        since_boot = broker.clock.now() - broker.boot_time
        if since_boot < 40 * S and (lost or since_boot < 3 * S) and facts.ordered:
            down_for = facts.now - facts.record.down.get(broker.name, 0)
            alive = [cid for cid in lost.values() if cid in facts.by_id and facts.answers(facts.by_id[cid])]
            sure = bool(alive) and down_for < 35 * S and facts.record.was_hooked(broker.name)
            yield Condition("BROKER_LOCKS_LOST", broker.name, HOOK if sure else NONE)


def regressions(facts: Facts, _: Memory) -> Looks:
    """OFFSET_REGRESSION: a commit went back and has not passed the mark again."""
    for (group, mq), at in facts.record.went_back.items():
        if group == facts.group and facts.now - at < 8 * S:
            yield Condition("OFFSET_REGRESSION", str(mq))
    for (group, mq), fallen in facts.record.fallen.items():
        if group == facts.group and facts.cluster.brokers[mq.broker].up:
            yield Condition("OFFSET_REGRESSION", str(mq), known(facts, mq, HOOK, _lasts(facts, fallen)))


def _lasts(facts: Facts, fallen: Fallen) -> bool:
    return facts.now - fallen.time > 7 * S and fallen.mark > 0


def reread(facts: Facts, _: Memory) -> Looks:
    """DUPLICATE_CONSUMPTION: a client begins below what was committed."""
    alike = all(client.consumer.config.orderly == facts.ordered for client in facts.clients)
    if not alike:
        facts.record.mixed.add(facts.group)
    for (group, mq), again in facts.record.reread.items():
        age = facts.now - again.time
        if group == facts.group and age < 30 * S:
            if again.passed is None and age < S and facts.committed(mq) >= again.mark:
                again.passed = facts.now
            short = again.passed is not None and again.passed - again.time < S  # one sum of pulls, which has no order
            sure = again.committed and not short and facts.group not in facts.record.mixed
            yield Condition("DUPLICATE_CONSUMPTION", "", known(facts, mq, HOOK, sure))
