"""Find out whose route of a topic lacks a broker: name servers that disagree.

Each client divides the queues of its own route, which it requests from one name server and keeps to while that answers
(NettyRemotingClient.namesrvAddrChoosed). A name server that a broker is not registered with omits its
queues, so its clients divide the others. No event shows a client's route. But a client that has exactly the share of a
route without a broker, and not that of the whole route, has such a route; one that is merely cut off from a broker
keeps its other queues. The collector, too, requests routes from one name server: queues that members have and their
broker reports, but that its own route lacks, are `Route.beyond` (`polls.routes`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice
from typing import TypeAlias

from rebalance_model.allocation import AllocateStrategy, AllocationError, strategy
from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.group import causes
from rebalance_model.observe.group.ended_queues import GONE_AFTER
from rebalance_model.observe.group.expectation import strategy_of
from rebalance_model.observe.group.member_types import is_outsider
from rebalance_model.observe.policy import NEED_NO_PARAMETERS
from rebalance_model.observe.state import GroupState, QueueState, Route, RouteSplit
from rebalance_model.observe.step import GroupStep

Held: TypeAlias = dict[str, set[MessageQueue]]
"""The queues of one topic that each member has or requests, by client id; members that report none of it are left out.
"""
Lists: TypeAlias = dict[str, tuple[str, ...]]
"""The member list of each broker that answers and lists any: a client requests it from a broker of its own route."""
ShareOf: TypeAlias = Callable[[str], set[MessageQueue] | None]
"""Returns a client's queues of one topic; None if its strategy throws."""
TRIED_MAX = 64
"""At most this many sets of brokers are tried, the smallest ones first: all of those of six brokers."""
REPORTED_WITHIN = 3
"""A broker has a queue if one of its answers of the last three poll intervals lists it."""


def note(step: GroupStep) -> None:
    """Find the topics of which members have different routes; while that can't be known, the last ones stay."""
    step.route_splits = _splits(step)
    if step.route_splits is not None:
        step.state.route_splits = step.route_splits


def held_by_members(step: GroupStep, topics: Collection[str]) -> tuple[dict[str, Held], set[str]]:
    """Return by topic, of these, which member has which queues, and the members of which that is unknown.

    A member's answer shows it, or the brokers' hooks if it gives none. An ordered client does not have a queue whose
    lock it is refused; that it requests the lock shows its share.
    """
    state = step.state
    by_topic: dict[str, Held] = {}
    mute, seen = set(), set()
    for member in state.members:
        client = state.clients[member]
        if is_outsider(state, client):
            continue
        if not client.answered or client.silent or not client.readable:
            mute.add(member)
            continue
        for mq, held in client.queues.items():
            if not held.dropped and mq.topic in topics:
                by_topic.setdefault(mq.topic, {}).setdefault(member, set()).add(mq)
    observed = [(mq, queue) for mq, queue in state.queues.items() if queue.hook_view is not None]
    for mq, queue in observed:
        for member in _seen_by_hook(step, mq, queue, mute):
            seen.add(member)
            by_topic.setdefault(mq.topic, {}).setdefault(member, set()).add(mq)
    return by_topic, mute - seen


def listed_beyond(step: GroupStep, topic: str, route: Route) -> tuple[MessageQueue, ...]:
    """Return the topic's queues that exist though the collector's route lacks them, in Java's order.

    Their brokers report them, or are never asked: a name server that lacks a broker does not list it, so the collector
    does not know it. A queue stays one while its broker does not answer.
    """
    in_route, limit = set(route.queues), REPORTED_WITHIN * step.policy.poll_interval
    beyond = []
    for mq, queue in step.state.queues.items():
        if mq.topic == topic and mq not in in_route and queue.ended is None:
            view = step.state.views.get(mq.broker)
            is_unasked = view is None or not view.stats_asked
            is_silent = mq in route.beyond and view is not None and view.failing
            if is_unasked or is_silent or step.now - queue.stats_at <= limit:
                beyond.append(mq)
    return tuple(sorted(beyond, key=queue_order))


def followers(
    step: GroupStep, queues: Sequence[MessageQueue], other: Sequence[MessageQueue], by_member: Held
) -> list[str]:
    """Return the members that have exactly the share of a route with these queues, and not that of the other route."""
    chosen = strategy_of(step.state, step.policy)
    if chosen is None:
        return []
    these, others = (_all_shares(step.state, chosen, one) for one in (queues, other))
    return [
        member
        for member, has in by_member.items()
        if any(share(member) == has for share in these) and not any(share(member) == has for share in others)
    ]


def members_changed_at(state: GroupState) -> int:
    """Return when a member last came or went; 0: never, as far as is known."""
    return max((c.time for c in state.causes if c.code in causes.COMES or c.code in causes.GOES), default=0)


def _share(chosen: AllocateStrategy, group: str, queues: Sequence[MessageQueue], cids: Sequence[str]) -> ShareOf:
    """Return what each client gets of a route by a list of members."""
    division = chosen.division(group, queues, cids)

    def share(client_id: str) -> set[MessageQueue] | None:
        try:
            return set(division(client_id) or ())
        except AllocationError:  # thrown in the client, too, which then keeps its queues
            return None

    return share


def _splits(step: GroupStep) -> tuple[RouteSplit, ...] | None:
    state, policy = step.state, step.policy
    if len(state.members) < 2 or not step.facts.is_divided:
        return ()
    topics = _astray(state) - step.facts.popped.keys()
    if not topics:
        return ()
    if step.now <= members_changed_at(state) + policy.rebalance_wait_interval:
        return None  # clients still move queues
    by_topic, unknown = held_by_members(step, topics)
    found = [split for topic in sorted(topics) if (split := _split_of(step, topic, by_topic.get(topic, {})))]
    return tuple(found) if found or not unknown else None


def _astray(state: GroupState) -> set[str]:
    """Return the topics of which a queue has two readers, no owner, or another one than expected."""
    topics = set()
    for mq, queue in state.queues.items():
        if mq.topic in topics:
            continue
        hook_view = queue.hook_view
        is_shared = queue.rival is not None or (hook_view is not None and hook_view.concurrent_puller is not None)
        if is_shared or queue.owner is None or queue.owner != queue.expected_owner:
            topics.add(mq.topic)
    return {topic for topic in topics if not MessageQueue(topic, "", 0).is_retry}


def _split_of(step: GroupStep, topic: str, by_member: Held) -> RouteSplit | None:
    """Return how the members' routes of a topic differ; None if they do not, or that does not explain their shares."""
    state, route = step.state, step.state.routes.get(topic)
    if not step.facts.shows_owners:
        return _by_hooks(step, topic, by_member)
    chosen = strategy_of(state, step.policy)
    if chosen is None or route is None or not route.queues:
        return None
    queues = tuple(sorted({*route.queues, *route.beyond}, key=queue_order)) if route.beyond else route.queues
    split = _compare(step, chosen, topic, queues, by_member)
    if split is not None:
        return split
    brokers = {mq.broker for mq in queues}
    listed = [mq for mq in listed_beyond(step, topic, route) if mq.broker not in brokers]
    if not listed:
        return None
    whole = tuple(sorted((*queues, *listed), key=queue_order))
    split = _compare(step, chosen, topic, whole, by_member, agreed=True)
    return split if split is not None and split.since > route.changed_at else None


def _by_hooks(step: GroupStep, topic: str, by_member: Held) -> RouteSplit | None:
    """Return the same by hooks alone: neither the route nor the strategy is known, so one member must have all of it.

    The queues are those that any member has read, and the strategy is one that needs no parameters. Nothing is known if
    a member that seems to be behind has its share of the whole route by another strategy, or if a queue without an
    owner was left before the members took their shares: the topic may have lost it.
    """
    queues = sorted(
        (mq for mq, q in step.state.queues.items() if mq.topic == topic and q.ended is None), key=queue_order
    )
    strategies = [strategy(name) for name in NEED_NO_PARAMETERS]
    for chosen in strategies:
        split = _compare(step, chosen, topic, queues, by_member, agreed=True)
        if split is not None:
            shares = [share for one in strategies for share in _all_shares(step.state, one, queues)]
            is_ambiguous = any(share(member) == by_member[member] for member in split.behind for share in shares)
            return None if is_ambiguous or _was_left_before(step, split) else split
    return None


def _was_left_before(step: GroupStep, split: RouteSplit) -> bool:
    """Return whether nobody has read an affected queue without an owner since long before the split."""
    if any(one.topic == split.topic for one in step.state.route_splits):
        return False  # it was known to be without an owner because of the split, which has lasted since then
    queues = (step.state.queues[mq] for mq in split.affected)
    left = [queue.hook_view for queue in queues if queue.owner is None and queue.hook_view is not None]
    return any(max(seen.pull_time, seen.commit_time) + GONE_AFTER < split.since for seen in left)


def _compare(
    step: GroupStep,
    chosen: AllocateStrategy,
    topic: str,
    queues: Sequence[MessageQueue],
    by_member: Held,
    *,
    agreed: bool = False,
) -> RouteSplit | None:
    """Return which members have the share of the route with these queues, in Java's order, without some brokers.

    If ``agreed``, another member must have the share of the whole route. Otherwise all may lack the same brokers.
    """
    state = step.state
    brokers = sorted({mq.broker for mq in queues})
    whole = _all_shares(state, chosen, queues)
    if len(brokers) < 2 or not whole:
        return None
    whole_of = {member: [share(member) for share in whole] for member in by_member}
    others = {member: has for member, has in by_member.items() if has not in whole_of[member]}
    others = {member: has for member, has in others.items() if not _is_kept(step, member, has)}
    ways: dict[tuple[str, ...], list[str]] = {}
    for lacks in _sets_of(brokers, others) if others else ():
        share = _without(state, chosen, queues, lacks)
        for member, has in others.items():
            if share is not None and share(member) == has and not _is_cut_off(has, whole_of[member], lacks):
                ways.setdefault(lacks, []).append(member)
    if not ways:
        return None
    behind = max(ways.values(), key=len)
    possible = [lacks for lacks, members in ways.items() if members == behind]
    possible = [lacks for lacks in possible if len(lacks) == len(possible[0])]
    ahead = [member for member in by_member if member not in behind and by_member[member] in whole_of[member]]
    if not ahead and (agreed or len(behind) < len(state.members)):
        return None
    affected = {mq for m in behind for mq in by_member[m] ^ (_first(whole_of[m]) or set())}
    taken = max(_taken_at(step, member, mq) for member in behind for mq in by_member[member])
    since = max(taken, members_changed_at(state))
    return RouteSplit(topic, tuple(behind), tuple(possible), tuple(sorted(affected, key=queue_order)), since)


def _first(shares: list[set[MessageQueue] | None]) -> set[MessageQueue] | None:
    """Return the share by the first list that has the client: a broker that the client lacks may not list it."""
    return next((share for share in shares if share), None)


def _sets_of(brokers: list[str], others: Held) -> Iterator[tuple[str, ...]]:
    """Yield the sets of brokers that a member may lack, those of which it has no queue; the smallest sets first."""
    read = [{mq.broker for mq in has} for has in others.values()]
    free = [broker for broker in brokers if any(broker not in one for one in read)]
    sizes = range(1, min(len(free), len(brokers) - 1) + 1)
    return islice(chain.from_iterable(combinations(free, size) for size in sizes), TRIED_MAX)


def _is_cut_off(has: set[MessageQueue], whole: Iterable[set[MessageQueue] | None], lacks: tuple[str, ...]) -> bool:
    """Return whether the member has its share of the whole route, but for the brokers: it may not reach them."""
    return any(share is not None and has == {mq for mq in share if mq.broker not in lacks} for share in whole)


def _is_kept(step: GroupStep, member: str, has: set[MessageQueue]) -> bool:
    """Return whether a member has kept its queues since before others came or went: it does not rebalance."""
    margin = REPORTED_WITHIN * step.policy.poll_interval
    return max(_taken_at(step, member, mq) for mq in has) + margin < members_changed_at(step.state)


def _taken_at(step: GroupStep, member: str, mq: MessageQueue) -> int:
    """Return since when a member has, reads or requests a queue; epoch milliseconds."""
    client, hook_view = step.state.clients[member], step.state.queues[mq].hook_view
    times = [held.claimed_since] if (held := client.queues.get(mq)) is not None else []
    if not times and hook_view is not None:
        puller, refused = hook_view.concurrent_puller, hook_view.refusals.get(member)
        times += [hook_view.holder_since] if hook_view.holder == member else []
        times += [puller.since] if puller is not None and puller.client_id == member else []
        times += [refused.first] if refused is not None else []
    return max(times, default=0)


def member_lists(state: GroupState) -> Lists:
    """Return the member list of each broker that answers; an empty one is left out, since clients ignore it."""
    views = ((broker, view.info.client_ids()) for broker, view in sorted(state.views.items()) if not view.failing)
    return {broker: tuple(ids) for broker, ids in views if ids}


def _all_shares(state: GroupState, chosen: AllocateStrategy, queues: Sequence[MessageQueue]) -> list[ShareOf]:
    """Return the shares of a route by each list of members that a broker gives."""
    lists = dict.fromkeys(member_lists(state).values())
    return [_share(chosen, state.group, queues, cids) for cids in lists] if queues else []


def _without(
    state: GroupState, chosen: AllocateStrategy, queues: Sequence[MessageQueue], lacks: tuple[str, ...]
) -> ShareOf | None:
    """Return the shares of the route without some brokers, by the list of a broker that is left."""
    cids = next((ids for broker, ids in member_lists(state).items() if broker not in lacks), None)
    left = [mq for mq in queues if mq.broker not in lacks]
    return _share(chosen, state.group, left, cids) if cids is not None else None


def _seen_by_hook(step: GroupStep, mq: MessageQueue, queue: QueueState, mute: set[str]) -> Iterator[str]:
    """Yield the members that read the queue or request its lock, by its broker's hook.

    Of members that answer, only the requests of a lock are news.
    """
    hook_view, hook = queue.hook_view, step.hook_of(mq.broker)
    if hook_view is None or hook is None or mq.is_retry:
        return
    now, policy, puller = step.now, step.policy, hook_view.concurrent_puller
    for member, refused in hook_view.refusals.items():
        if member in step.facts.members and now - refused.last <= 2 * policy.lock_interval:
            yield member
    entry = hook.locks.get(mq)
    if entry is not None and entry.client_id in mute:
        if not entry.is_expired(now, policy.client_lock_max_live_time):
            yield entry.client_id
        return
    if hook_view.holder in mute and now - hook_view.pull_time <= policy.pull_suspended_max:
        yield hook_view.holder
    if puller is not None and puller.client_id in mute and now - puller.pull_time <= policy.pull_suspended_max:
        yield puller.client_id
