"""Members, what they declare, brokers and sources."""

from collections import Counter

from rebalance_model.simulation.client import Client
from rebalance_model.simulation.process import ProcessState
from tests.detection.facts import Facts
from tests.detection.memory import AT_ONCE, BOTH, HOOK, NONE, POLL, Looks, Memory, S
from tests.detection.spans import Condition


def declarations(facts: Facts, _: Memory) -> Looks:
    """STRATEGY_MISMATCH, MIXED_CONSUME_MODE, SUBSCRIPTION_INCONSISTENT: what members declare."""
    members = [c for c in facts.clients if c.consumer.config.client_id in facts.members]
    said = [(c, (c.consumer.config.strategy.java_class, c.consumer.config.orderly, subscribed(c))) for c in members]
    sure = [declared for c, declared in said if facts.answers(c)]
    codes = {"STRATEGY_MISMATCH": POLL, "MIXED_CONSUME_MODE": POLL, "SUBSCRIPTION_INCONSISTENT": BOTH}
    telling = frozenset(
        t for t, so in (("poll", facts.polls), ("hook", any(facts.hooked(b.name) for b in facts.up))) if so
    )
    for place, (code, telemetry) in enumerate(codes.items()):
        if len({declared[place] for _, declared in said}) > 1:
            surely = len({one[place] for one in sure}) > 1 and facts.all_answer
            yield Condition(code, "", telemetry & telling if surely else NONE)


def subscribed(client: Client) -> tuple[tuple[str, str], ...]:
    table = client.consumer.subscription_inner
    return tuple(sorted((topic, one.sub_string) for topic, one in table.items() if not topic.startswith("%RETRY%")))


def clients(facts: Facts, _: Memory) -> Looks:
    """CLIENT_UNRESPONSIVE, STALE_HEARTBEAT, CLOCK_SKEW, CLIENT_ID_COLLISION."""
    ids = Counter(c.consumer.config.client_id for c in facts.clients if c.process.state is ProcessState.RUNNING)
    for cid, count in ids.items():
        if count > 1 and cid in facts.members:
            reached = all(facts.answers(c) for c in facts.clients if c.consumer.config.client_id == cid)
            yield Condition("CLIENT_ID_COLLISION", cid, _telling(facts) if reached else NONE)
    for client in facts.clients:
        cid = client.consumer.config.client_id
        if cid in facts.members and not facts.answers(client):
            frozen = client.process.state is ProcessState.FROZEN or all(
                facts.is_cut(client, name) for name in facts.lists
            )
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
        alive = {
            cid
            for cid in facts.members
            if cid in facts.by_id and facts.by_id[cid].process.state is ProcessState.RUNNING
        }
        sure = any(one & alive != lists[0] & alive for one in lists)
        yield Condition("CID_VIEW_SPLIT", "", _telling(facts) if sure else NONE)


def _telling(facts: Facts) -> frozenset[str]:
    """The telemetry that tells of every broker that is up."""
    telling = {"poll": facts.polls, "hook": all(facts.hooked(broker.name) for broker in facts.up)}
    return frozenset(name for name, tells in telling.items() if tells)


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
    if memory.repeated(facts.now) >= 3 or memory.came_and_went(facts.now) > 6:
        lives, flips = memory.surely_repeated(facts.now)
        told = BOTH if lives > 8 else HOOK if lives + flips > 8 else NONE
        yield Condition("REBALANCE_STORM", "", _telling(facts) & told)
