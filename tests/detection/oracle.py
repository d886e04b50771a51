"""What each rule of detection.md is about, computed from what really is so, not from telemetry.

Of each rule: when its condition holds by the widest reading (an incident then is not wrong), and by which telemetry it
surely does, so that an incident must come. Between the two lies what the rule's telemetry cannot know: what is so
between two polls, of a client that does not answer, of a hook that has just begun to tell.
"""

from collections.abc import Callable, Iterator
from collections import Counter
from dataclasses import dataclass, field

from rebalance_model.client.process_queue import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.client import Client
from rebalance_model.simulation.cluster import START
from rebalance_model.simulation.process import Life
from tests.detection.facts import Facts, Fallen
from tests.detection.spans import Condition

S = 1_000
NONE: frozenset[str] = frozenset()
AT_ONCE = frozenset({"both"})
"""Only one source tells of the other."""
HOOK, POLL, BOTH = frozenset({"hook"}), frozenset({"poll"}), frozenset({"hook", "poll"})


@dataclass
class Memory:
    """What the look before saw of the group."""

    offsets: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    """Commit, and lag."""
    expected: dict[MessageQueue, str] = field(default_factory=dict)
    owners: dict[MessageQueue, tuple[str, ...]] = field(default_factory=dict)
    moved_at: int = 0
    expected_at: int = 0
    route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    former_route: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    had_members: bool = False
    causes: list[tuple[int, str]] = field(default_factory=list)
    """What makes the group rebalance: when, and what it is about."""
    lives: list[tuple[int, str, bool]] = field(default_factory=list)
    """Who came (True) and went, and when."""
    members: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    subscribed: dict[str, set[str]] = field(default_factory=dict)

    def look(self, facts: Facts) -> None:
        """Take down the present, before anything is judged by it."""
        owners = {mq: tuple(sorted(c.name for c, q in held if not q.dropped)) for mq, held in facts.held.items()}
        owners = {mq: names for mq, names in owners.items() if names}
        if owners != self.owners:
            self.owners, self.moved_at = owners, facts.now
        if facts.expected != self.expected:
            self.expected, self.expected_at = facts.expected, facts.now
        if facts.route != self.route:
            self.former_route, self.route = self.route, facts.route
        self.had_members = self.had_members or bool(facts.members)
        self._note_causes(facts)

    def _note_causes(self, facts: Facts) -> None:
        infos = {b.name: info for b in facts.up if (info := b.manager.consumer_table.get(facts.group)) is not None}
        what = {f"member {cid}" for cid in facts.members ^ self.members}
        if facts.now - START < 15 * S:
            self.members = facts.members  # who is there when observation begins has not come
        self.lives += [(facts.now, cid, cid in facts.members) for cid in facts.members ^ self.members]
        for name, info in infos.items():
            topics = set(info.subscription_table)
            what |= {f"topic {topic}" for topic in topics ^ self.subscribed.get(name, topics)}
            self.subscribed[name] = topics
        channels = {f"{c.client_id} {c.channel}" for info in infos.values() for c in info.channel_info_table.values()}
        what |= {f"member {one.split()[0]}" for one in channels ^ self.channels}
        if self.route != self.former_route and self.former_route:
            what.add("route")
            self.former_route = {}
        self.members, self.channels = facts.members, channels
        lately = {one for at, one in self.causes if facts.now - at <= 5 * S}
        self.causes += [(facts.now, one) for one in sorted(what - lately)]

    def repeated(self, now: int) -> int:
        """How many of the last 5 min are about something that has changed more than there and back."""
        lately = Counter(what for at, what in self.causes if now - at <= 300 * S)
        return sum(count for count in lately.values() if count > 2)

    def surely_repeated(self, now: int) -> int:
        """How many comings and goings there were in 5 min of members that went three times; and topics' flips."""
        lives = [(cid, came) for at, cid, came in self.lives if now - at <= 300 * S]
        again = {cid for cid, _ in lives if lives.count((cid, False)) > 2}
        flips = Counter(what for at, what in self.causes if now - at <= 300 * S and what.startswith("topic"))
        return sum(cid in again for cid, _ in lives) + sum(count for count in flips.values() if count > 2)


Looks = Iterator[Condition]
Oracle = Callable[[Facts, Memory], Looks]


def _known(facts: Facts, mq: MessageQueue, telemetry: frozenset[str], when: bool = True) -> frozenset[str]:
    return telemetry & facts.seen_by(mq.broker) if when else NONE


def _believed(facts: Facts, mq: MessageQueue) -> list[tuple[Client, ProcessQueue]]:
    """Who has it, undropped."""
    return [(client, queue) for client, queue in facts.held.get(mq, ()) if not queue.dropped]


# Queues that wait


def stuck(facts: Facts, memory: Memory) -> Looks:
    """ORDERED_QUEUE_STUCK and QUEUE_STALLED: lag, and no commit since the look before."""
    code = "ORDERED_QUEUE_STUCK" if facts.ordered else "QUEUE_STALLED"
    offsets = {mq: (facts.committed(mq), facts.lag(mq)) for mq in {*facts.routed, *facts.held}}
    for mq, (commit, lag) in offsets.items():
        before = memory.offsets.get(mq)
        if before is None or commit > before[0]:
            continue
        owners = _believed(facts, mq)
        well = commit >= 0 and lag > 0 and before[1] > 0
        cached = bool(owners) and owners[0][1].msg_count > 0
        alive = bool(owners) and facts.answers(owners[0][0])
        since = None if alive else facts.record.advanced.get((facts.group, mq))
        if facts.ordered:
            nobody = not alive  # whether anything waits can't be told then by the hook
            if lag > 0 or nobody:
                surely = {"poll": well, "hook": well and (cached or nobody) and _moved_lately(facts, mq)}
                yield Condition(code, str(mq), _known(facts, mq, frozenset(t for t, so in surely.items() if so)), since)
        elif lag > 0 or not alive:
            yield Condition(code, str(mq), _known(facts, mq, BOTH, well and cached and len(owners) == 1), since)
    memory.offsets = offsets


def _moved_lately(facts: Facts, mq: MessageQueue) -> bool:
    return facts.now - facts.record.advanced.get((facts.group, mq), 0) < 150 * S


def lag_grows(facts: Facts, memory: Memory) -> Looks:
    """LAG_GROWTH: lag that does not fall, and has grown."""
    for mq, (commit, lag) in memory.offsets.items():
        if lag > 0:
            grows = commit >= 0 and facts.now - facts.record.advanced.get((facts.group, mq), 0) > S and mq in facts.routed
            yield Condition("LAG_GROWTH", str(mq), _known(facts, mq, POLL, grows))


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
        if not _believed(facts, mq):
            yield Condition("PULL_EXPIRED", str(mq))
    for mq, held in facts.held.items():
        for client, queue in held:
            age = client.clock.now() - queue.last_pull_timestamp
            if age > 118 * S:
                sure = age > 120 * S and not queue.dropped and facts.answers(client) and len(held) == 1
                locked = not facts.ordered or _holder(facts, mq) == client.consumer.config.client_id
                known = BOTH if locked and queue.msg_count == 0 else POLL
                yield Condition("PULL_EXPIRED", str(mq), _known(facts, mq, known, sure))


# Locks


def _holder(facts: Facts, mq: MessageQueue) -> str | None:
    broker = facts.cluster.brokers[mq.broker]
    entry = broker.locks.mq_lock_table.get(facts.group, {}).get(mq) if broker.up else None
    return entry.client_id if entry is not None else None


def locks(facts: Facts, _: Memory) -> Looks:
    """LOCK_EXPIRED and LOCK_ORPHANED, by the brokers' tables and the clients' stamps."""
    if not facts.ordered:
        return
    for broker in facts.up:
        listed = set(facts.lists[broker.name])
        for mq, entry in broker.locks.mq_lock_table.get(facts.group, {}).items():
            if mq.is_retry:
                continue
            age = broker.clock.now() - entry.last_update_timestamp
            client = facts.by_id.get(entry.client_id)
            holds = client is not None and any(c is client for c, _ in _believed(facts, mq))
            if entry.client_id in facts.members and age > 28 * S:
                told = BOTH if client is not None and client.process.life is Life.FROZEN else HOOK
                sure = age > 30 * S and holds and entry.client_id in listed
                yield Condition("LOCK_EXPIRED", str(mq), _known(facts, mq, told, sure))
            if entry.client_id not in listed and age < 62 * S:
                heir = facts.by_id.get(facts.expected.get(mq, ""))
                asks = heir is not None and facts.answers(heir) and heir.consumer.config.client_id != entry.client_id
                asks = asks and entry.client_id not in facts.members and age < 59 * S
                refused = any(a.last > facts.now - 3 * S for a in facts.record.asked[facts.group, mq].values())
                told = BOTH if facts.all_answer else HOOK
                yield Condition("LOCK_ORPHANED", str(mq), _known(facts, mq, told, asks and refused))
    for (group_name, mq), at in facts.record.orphaned.items():
        if group_name == facts.group and facts.now - at < 2 * S:
            yield Condition("LOCK_ORPHANED", str(mq))
    for mq, held in facts.held.items():
        for client, queue in held:
            if client.clock.now() - queue.last_lock_timestamp > 28 * S or not facts.answers(client):
                yield Condition("LOCK_EXPIRED", str(mq))  # polls know nothing of who is cut off from one broker alone


def lock_contended(facts: Facts, _: Memory) -> Looks:
    """LOCK_CONTENDED: refused again and again by a member that lives; or taken to and fro."""
    for (group, mq), asked in facts.record.contended.items():
        lasting = [a.last for a in asked.values() if a.count >= 3 and a.last - a.first > 50 * S]
        if group != facts.group or not lasting or mq.broker not in facts.lists:
            continue
        lives, age = _holder(facts, mq) in facts.lists[mq.broker], facts.now - max(lasting)
        if age <= 21 * S:
            sure = lives and age < 18 * S and not mq.is_retry
            yield Condition("LOCK_CONTENDED", str(mq), _known(facts, mq, HOOK, sure))
    for (group, mq), taken in facts.record.takers.items():
        if group == facts.group and len(taken) == 4 and facts.now - taken[0][1] <= 61 * S:
            clients, times, among = zip(*taken, strict=True)
            if clients[:2] == clients[2:]:
                sure = facts.now - times[0] < 58 * S and len(set(among)) == 1  # no client came or went
                yield Condition("LOCK_CONTENDED", str(mq), _known(facts, mq, HOOK, sure))


def locks_lost(facts: Facts, _: Memory) -> Looks:
    """BROKER_LOCKS_LOST: a broker has restarted, and who held its locks has not locked again."""
    for broker in facts.up:
        lost = {key: held for key, held in facts.record.lost_locks.get(broker.name, {}).items() if key[0] == facts.group}
        since_boot = broker.clock.now() - broker.boot_time
        if since_boot < 40 * S and (lost or since_boot < 3 * S) and facts.ordered:
            down_for = facts.now - facts.record.down.get(broker.name, 0)
            alive = [cid for cid, _ in lost.values() if cid in facts.by_id and facts.answers(facts.by_id[cid])]
            sure = bool(alive) and down_for < 35 * S and facts.record.was_hooked(broker.name)
            yield Condition("BROKER_LOCKS_LOST", broker.name, HOOK if sure else NONE)


# Owners


def unassigned(facts: Facts, _: Memory) -> Looks:
    """QUEUE_UNASSIGNED: in the route, and in nobody's table."""
    for mq in facts.routed:
        if _believed(facts, mq) or not facts.members:
            continue
        sure = mq not in facts.held and facts.all_answer
        yield Condition("QUEUE_UNASSIGNED", str(mq), _known(facts, mq, POLL, sure))


def double_owned(facts: Facts, _: Memory) -> Looks:
    """QUEUE_DOUBLE_OWNED: in two tables; of an ordered queue both believe to have its lock."""
    for mq, held in facts.held.items():
        if len(held) < 2:
            continue
        live = [(c, q) for c, q in held if not q.dropped and (not facts.ordered or _believes(c, q))]
        sure = len(live) >= 2 and all(facts.answers(c) for c, _ in live)
        yield Condition("QUEUE_DOUBLE_OWNED", str(mq), _known(facts, mq, POLL, sure))


def _believes(client: Client, queue: ProcessQueue) -> bool:
    return queue.locked and not queue.is_lock_expired(client.clock.now())


def mismatch(facts: Facts, memory: Memory) -> Looks:
    """ASSIGNMENT_MISMATCH: one owner, and by the strategy another one."""
    settled = facts.now - max(memory.moved_at, memory.expected_at)
    for mq, names in memory.owners.items():
        should = facts.by_id.get(facts.expected.get(mq, ""))
        if (should is None or should.name not in names or len(names) > 1) and settled > 50 * S:
            sure = should is not None and len(names) == 1 and settled > 60 * S and facts.all_answer
            yield Condition("ASSIGNMENT_MISMATCH", str(mq), _known(facts, mq, POLL, sure))


def stalled_rebalance(facts: Facts, memory: Memory) -> Looks:
    """REBALANCE_STALLED: other owners are expected, and none has moved since."""
    behind = [mq for mq, cid in facts.expected.items() if memory.owners.get(mq) != (facts.by_id[cid].name,)] if (
        set(facts.expected.values()) <= facts.by_id.keys()
    ) else [*facts.expected]
    if behind and facts.now - memory.expected_at > 50 * S and memory.moved_at <= memory.expected_at + 10 * S:
        sure = memory.expected_at > memory.moved_at and facts.now - memory.expected_at > 60 * S and facts.all_answer
        free = [mq for mq in behind if len(facts.held.get(mq, ())) < 2 and not any(q.dropped for _, q in facts.held.get(mq, ()))]
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
    for mq, held in facts.held.items():
        for client, queue in held:
            if not queue.dropped:
                continue
            cid = client.consumer.config.client_id
            sure = len(held) == 1 and facts.answers(client)
            mine = facts.expected.get(mq) == cid
            if mine or not facts.expected:
                yield Condition("ZOMBIE_QUEUE", str(mq), _known(facts, mq, POLL, sure and mine and facts.all_answer))
            if queue.try_unlock_times > 0:
                yield Condition("UNLOCK_PENDING", str(mq), _known(facts, mq, POLL, sure))


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
        sure = most > 2 * mean and most > mean + 2 and facts.all_answer and facts.polls and bool(facts.expected)
        yield Condition("ASSIGNMENT_SKEW", "", POLL if sure else NONE)


# Offsets


def regressions(facts: Facts, _: Memory) -> Looks:
    """OFFSET_REGRESSION: a commit went back and has not passed the mark again."""
    for (group, mq), at in facts.record.went_back.items():
        if group == facts.group and facts.now - at < 8 * S:
            yield Condition("OFFSET_REGRESSION", str(mq))
    for (group, mq), fallen in facts.record.fallen.items():
        if group == facts.group and facts.cluster.brokers[mq.broker].up:
            yield Condition("OFFSET_REGRESSION", str(mq), _known(facts, mq, HOOK, _lasts(facts, fallen)))


def _lasts(facts: Facts, fallen: Fallen) -> bool:
    return facts.now - fallen.time > 7 * S and fallen.mark > 0


def declarations(facts: Facts, _: Memory) -> Looks:
    """STRATEGY_MISMATCH, MIXED_CONSUME_MODE, SUBSCRIPTION_INCONSISTENT: what members declare."""
    members = [c for c in facts.clients if c.consumer.config.client_id in facts.members]
    said = [(c.consumer.config.strategy.java_class, c.consumer.config.orderly, _subscribed(c)) for c in members]
    sure = [
        (c.consumer.config.strategy.java_class, c.consumer.config.orderly, _subscribed(c))
        for c in members
        if facts.answers(c)
    ]
    codes = {"STRATEGY_MISMATCH": POLL, "MIXED_CONSUME_MODE": POLL, "SUBSCRIPTION_INCONSISTENT": BOTH}
    telling = frozenset(
        t for t, so in (("poll", facts.polls), ("hook", any(facts.hooked(b.name) for b in facts.up))) if so
    )
    for place, (code, telemetry) in enumerate(codes.items()):
        if len({one[place] for one in said}) > 1:
            surely = len({one[place] for one in sure}) > 1 and facts.all_answer
            yield Condition(code, "", telemetry & telling if surely else NONE)


def _subscribed(client: Client) -> tuple[tuple[str, str], ...]:
    table = client.consumer.subscription_inner
    return tuple(sorted((topic, one.sub_string) for topic, one in table.items() if not topic.startswith("%RETRY%")))


# Clients, groups, brokers and sources


def clients(facts: Facts, _: Memory) -> Looks:
    """CLIENT_UNRESPONSIVE, STALE_HEARTBEAT, CLOCK_SKEW."""
    for client in facts.clients:
        cid = client.consumer.config.client_id
        if cid in facts.members and not facts.answers(client):
            frozen = client.process.life is Life.FROZEN or all(facts.is_cut(client, name) for name in facts.lists)
            yield Condition("CLIENT_UNRESPONSIVE", cid, POLL if frozen and facts.polls else NONE)
        offset = client.settings.clock_offset
        if abs(offset) > 5 * S and cid in facts.members:
            busy = any(facts.lag(mq) > 0 or facts.ordered for mq in client.owned)
            shows = offset > 6 * S or offset < -16 * S  # a stamp of 9 s ago may be just that
            sure = shows and facts.answers(client) and facts.polls and busy
            yield Condition("CLOCK_SKEW", cid, POLL if sure else NONE)
    for broker in facts.up:
        info = broker.manager.consumer_table.get(facts.group)
        last: dict[str, int] = {}
        for one in info.channel_info_table.values() if info is not None else ():
            last[one.client_id] = max(last.get(one.client_id, 0), one.last_update_timestamp)
        for cid, at in last.items():
            age = broker.clock.now() - at
            if age > 58 * S:
                yield Condition("STALE_HEARTBEAT", cid, HOOK if age > 60 * S and facts.hooked(broker.name) else NONE)


def group(facts: Facts, memory: Memory) -> Looks:
    """NO_ACTIVE_CLIENTS_WITH_LAG, CID_VIEW_SPLIT."""
    if memory.had_members and not facts.members and facts.up:
        lag = sum(max(facts.lag(mq), 0) for mq in memory.offsets if facts.cluster.brokers[mq.broker].up)
        sure = lag > 0 and facts.polls and len(facts.up) == len(facts.cluster.brokers)
        yield Condition("NO_ACTIVE_CLIENTS_WITH_LAG", "", POLL if sure else NONE)
    lists = [set(ids) for ids in facts.lists.values()]
    if any(one != lists[0] for one in lists):
        alive = {cid for cid in facts.members if cid in facts.by_id and facts.by_id[cid].process.life is Life.RUNNING}
        sure = any(one & alive != lists[0] & alive for one in lists)
        telling = [t for t, so in (("poll", facts.polls), ("hook", all(facts.hooked(b.name) for b in facts.up))) if so]
        yield Condition("CID_VIEW_SPLIT", "", frozenset(telling) if sure else NONE)


def sources(facts: Facts, _: Memory) -> Looks:
    """BROKER_UNREACHABLE, TELEMETRY_GAP."""
    record = facts.record
    for broker in facts.cluster.brokers.values():
        known = facts.group in broker.groups.subscription_group_table
        if not broker.up:
            yield Condition("BROKER_UNREACHABLE", broker.name, POLL if known and facts.polls else NONE)
        down = record.down_since.get(broker.name)
        if down is not None or facts.now - record.down.get(broker.name, 0) < 50 * S:
            silent = down is not None and facts.polls and known and record.was_hooked(broker.name)
            yield Condition("TELEMETRY_GAP", broker.name, AT_ONCE if silent else NONE)
    away = record.down_since.get("collector")
    if away is not None or facts.now - record.down.get("collector", 0) < 40 * S:
        watched = away is not None and all(facts.hooked(broker.name) for broker in facts.up)
        yield Condition("TELEMETRY_GAP", "", AT_ONCE if watched else NONE)


def storm(facts: Facts, memory: Memory) -> Looks:
    """REBALANCE_STORM: what makes a group rebalance comes again and again, within 5 min."""
    count = memory.repeated(facts.now)
    if count >= 4:
        sure = memory.surely_repeated(facts.now) > 8
        telling = [t for t, so in (("poll", facts.polls), ("hook", all(facts.hooked(b.name) for b in facts.up))) if so]
        yield Condition("REBALANCE_STORM", "", frozenset(telling) if sure else NONE)


def reread(facts: Facts, _: Memory) -> Looks:
    """DUPLICATE_CONSUMPTION: a client begins below what was committed."""
    for (group, mq), (at, sure, mark) in facts.record.reread.items():
        if group == facts.group and facts.now - at < 30 * S:
            short = facts.now - at < S and facts.committed(mq) >= mark  # all within one sum of pulls: that has no order
            if short:
                facts.record.reread[group, mq] = at, False, mark
            alike = all(client.consumer.config.orderly == facts.ordered for client in facts.clients)
            yield Condition("DUPLICATE_CONSUMPTION", str(mq), _known(facts, mq, HOOK, sure and alike and not short))


ORACLES: tuple[Oracle, ...] = (
    stuck,
    lag_grows,
    of_the_dead,
    pull_expired,
    locks,
    lock_contended,
    locks_lost,
    unassigned,
    double_owned,
    mismatch,
    stalled_rebalance,
    route_split,
    dropped,
    shares,
    regressions,
    declarations,
    clients,
    group,
    sources,
    storm,
    reread,
)


def conditions(facts: Facts, memory: Memory) -> Looks:
    """All that any rule is about."""
    memory.look(facts)
    for oracle in ORACLES:
        yield from oracle(facts, memory)
