"""Compute the expected owner of each queue: the strategy applied to the observed members and queues.

The strategy is the configured one (allocate_strategy), or the one that the members declare, or, if its class name is
not sufficient, the only one that explains the observed owners.
"""

from collections.abc import Collection
from functools import cache
from typing import Literal, TypeAlias

from rebalance_model.allocation import (
    AllocateStrategy,
    AllocationError,
    strategy,
    strategy_of_class,
    takes_parameters,
)
from rebalance_model.allocation.server_side import ALL_QUEUES
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, java_order
from rebalance_model.observe.group.configured_strategy import configured_strategy, owners
from rebalance_model.observe.group.member_types import BROADCASTING, PUSH, consume_type_of
from rebalance_model.observe.policy import NEED_NO_PARAMETERS, Policy
from rebalance_model.observe.state import BrokerView, GroupState, Unassigned
from rebalance_model.observe.step import Division, GroupStep, Sharing

SHARED_BY_MAX = 64
"""At most this many of the clients that pop a queue are named."""
Basis: TypeAlias = tuple[list[str], frozenset[str], str] | None
"""The inputs of the expected owners: members (once per channel), topics, message model."""
DeclaredBasis: TypeAlias = tuple[set[str], Division, frozenset[str]]
"""What else they depend on: the strategies that members declare, how they share the queues, and the popped topics."""
Trust: TypeAlias = Literal["DECLARED", "CONFIGURED", "INFERRED", ""]
_named = cache(strategy)


def list_view(state: GroupState) -> BrokerView | None:
    """Return the view of the first broker that answers; None if there is none.

    A client, too, requests the members from one broker of the topic. A broker that has just started lists no member,
    and a client that gets an empty list stays as it is: so while another broker lists members, its view counts.
    """
    if len(state.views) == 1:  # the usual case; called several times per event
        [only] = state.views.values()
        return None if only.failing else only
    answering = [(not view.info.channel_info_table, broker) for broker, view in state.views.items() if not view.failing]
    return state.views[min(answering)[1]] if answering else None


def group_info(state: GroupState) -> ConsumerGroupInfo | None:
    """Return that broker's (`list_view`) information about the group; None while no broker answers."""
    view = list_view(state)
    return view.info if view is not None else None


def basis(state: GroupState) -> Basis:
    """Return the inputs of the expected owners: while they are unchanged, so are the owners."""
    info = group_info(state)
    return None if info is None else (info.client_ids(), frozenset(info.subscription_table), state.message_model)


def declared_basis(state: GroupState) -> DeclaredBasis:
    """Return what of the members' answers the expected owners depend on: while it is unchanged, so are the owners."""
    return declared_strategies(state), division(state), popped_topics(state)


def broadcasts(state: GroupState) -> bool:
    """Return whether every member reads every queue, so that none has an owner; kept while no member is listed."""
    return state.message_model == BROADCASTING


def division(state: GroupState) -> Division:
    """Return how the members share the group's queues.

    DIVIDED: each queue has one owner, which answers show (push consumers). BROADCAST: every member reads every queue,
    and keeps its offsets itself. POPPED: clients pop every topic, and share the queues; only the group's retry topic is
    pulled. MIXED: they pop some topics, and divide the queues of the others. ACTIVE: clients pull by themselves, and do
    not report their queues. PROXIED: gRPC clients listed by a broker with an embedded proxy (LOCAL mode): they answer
    no request, and unlike push consumers they do not subscribe to the group's retry topic. Empty: no member is listed.
    """
    info = group_info(state)
    if broadcasts(state):
        return "BROADCAST"
    consume_type = consume_type_of(state, info) if info is not None else ""
    if info is None or not consume_type:
        return ""
    if consume_type != PUSH:
        return "ACTIVE"
    if popped := popped_topics(state):
        pulled = (topic for topic in info.subscription_table if not topic.startswith(RETRY_TOPIC_PREFIX))
        return "MIXED" if any(topic not in popped for topic in pulled) else "POPPED"
    if RETRY_TOPIC_PREFIX + state.group in info.subscription_table:
        return "DIVIDED"
    asked = any(client.asked for client in state.clients.values())
    answered = any(client.answered or not client.readable for client in state.clients.values())
    return "PROXIED" if asked and not answered else "DIVIDED"


def popped_topics(state: GroupState) -> frozenset[str]:
    """Return the topics that members pop, by their last answers and their POPs: the mode is set for each topic."""
    return frozenset(_poppers(state)) if may_pop(state) else frozenset()


def may_pop(state: GroupState) -> bool:
    """Return whether any member pops, by its last answer or by hooks."""
    return bool(state.poppers) or (state.pops is not None and bool(state.pops.poppers))


def is_subscribed(state: GroupState, topic: str) -> bool:
    """Return whether the topic is subscribed, by the broker's table or by a member's own answer.

    The members' heartbeats overwrite the broker's table in turn.
    """
    info = group_info(state)
    if info is not None and topic in info.subscription_table:
        return True
    return any(s.topic == topic for client in state.clients.values() for s in client.subscriptions)


def sharing_of(step: GroupStep) -> Sharing:
    """Return how the members share the queues, for rules: it looks at every client, so once for all queues of the step.

    Call it only after the event is folded, since members and answers stay the same from then on.
    """
    if step.sharing is None:
        step.sharing = Sharing(division(step.state), _poppers(step.state))
    return step.sharing


def division_of(step: GroupStep) -> Division:
    """Return `division` of the step's group."""
    return sharing_of(step).division


def is_divided(step: GroupStep) -> bool:
    """Return whether the members divide the queues that are not popped, and their answers show their queues."""
    return division_of(step) in ("DIVIDED", "MIXED")


def is_popped(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether clients pop the queue's topic: its queues have no owner, and no locks."""
    return may_pop(step.state) and mq.topic in sharing_of(step).popped


def _poppers(state: GroupState) -> dict[str, dict[tuple[str, int], list[str]]]:
    by_topic: dict[str, dict[tuple[str, int], list[str]]] = {}
    for client_id in state.poppers:
        client = state.clients.get(client_id)
        for place in client.popped if client is not None else ():
            by_topic.setdefault(place.topic, {}).setdefault((place.broker, place.queue_id), []).append(client_id)
    for client_id, popper in state.pops.poppers.items() if state.pops is not None else ():
        for place in popper.targets:
            who = by_topic.setdefault(place.topic, {}).setdefault((place.broker, place.queue_id), [])
            if client_id not in who:
                who.append(client_id)
    return by_topic


def shared_by(step: GroupStep, mq: MessageQueue) -> tuple[str, ...]:
    """Return the members that pop the queue, in Java's order, at most `SHARED_BY_MAX`."""
    by_place = sharing_of(step).popped.get(mq.topic) if may_pop(step.state) else None
    if by_place is None:
        return ()
    clients = {*by_place.get((mq.broker, mq.queue_id), ()), *by_place.get((mq.broker, ALL_QUEUES), ())}
    return tuple(sorted(clients, key=java_order)[:SHARED_BY_MAX])


def is_fifo(step: GroupStep, mq: MessageQueue) -> bool:
    """Return whether the queue's messages are popped in order: one that is not acknowledged holds back the others.

    The clients of such a group speak gRPC: they are in no broker's list, or are listed and answer nothing.
    """
    view = step.state.views.get(mq.broker)
    if mq.is_retry:
        return False
    if view is None or not view.is_fifo:
        queue = step.state.popped_queue(mq)
        return queue is not None and queue.order
    return is_popped(step, mq) or division_of(step) in ("", "PROXIED")


def is_consumed_unlisted(state: GroupState, policy: Policy) -> bool:
    """Return whether commits advance though no member is listed: clients behind a separate proxy (CLUSTER mode) do so.

    The last commits of members that have left come within a persist interval, and are seen one poll interval later.
    """
    settled = state.no_members_since + policy.persist_consumer_offset_interval + 2 * policy.poll_interval
    return not state.members and state.advanced_at > settled


def declared_strategies(state: GroupState) -> set[str]:
    """Return the strategy classes that the members which have answered declare."""
    return {c.strategy for m in state.members if (c := state.clients.get(m)) is not None and c.strategy}


def declared_strategy(state: GroupState) -> str | None:
    """Return the strategy class that all members which have answered declare; None if they differ or none has."""
    declared = declared_strategies(state)
    return declared.pop() if len(declared) == 1 else None


def strategy_of(state: GroupState, policy: Policy) -> AllocateStrategy | None:
    """Return the strategy that names the expected owners; None if it is unknown."""
    if state.strategy_basis == "CONFIGURED":
        return configured_strategy(policy)
    return _named(state.strategy) if state.strategy else None


def expect(step: GroupStep) -> None:
    """Compute the expected owner of each queue again.

    No owner is expected if the strategy is unknown, if a topic has no route, an incomplete one (`Route.beyond`) or is
    not subscribed, or if the group shares queues by design. While no member has answered, the former expectation stays.
    """
    state = step.state
    info = group_info(state)
    declared = declared_strategies(state)
    if info is None or (state.members and not declared and not step.policy.allocate_strategy):
        return
    shared = division(state) in ("ACTIVE", "PROXIED")
    resolved = _resolve(state, declared, step.policy.allocate_strategy)
    state.strategy, state.strategy_basis = ("", "") if shared else resolved
    expected = _plan(state, info, step.policy)
    for mq in {**dict.fromkeys(expected), **dict.fromkeys(state.queues)}:
        if (queue := state.queues.get(mq)) is None or queue.expected_owner != expected.get(mq):
            _set_expected(step, mq, expected.get(mq))


def infer(step: GroupStep, astray: Collection[MessageQueue]) -> None:
    """Find the only strategy that explains the observed owners, if the clients' declaration does not determine it.

    A declared class with parameters (CONSISTENT_HASH) is then trusted permanently. For an unknown class the inferred
    strategy is dropped as soon as it no longer explains the owners. Every member has just been asked, and the queues
    that are ``astray`` are not with their expected owner.
    """
    state = step.state
    if step.policy.allocate_strategy or state.strategy_basis == "CONFIGURED":
        expect(step)  # the policy may have changed since the job started
    if state.strategy_basis == "INFERRED" and astray and _is_settled(step):
        state.inferred = ""
        expect(step)
    if state.strategy or len(state.members) <= 1 or state.tried_at == state.owner_changed_at:
        return
    state.tried_at = state.owner_changed_at
    if (declared := declared_strategy(state)) is None or (info := group_info(state)) is None:
        return
    known = strategy_of_class(declared)
    fits = [s for s in ((known,) if known else map(_named, NEED_NO_PARAMETERS)) if _explains(state, info, s)]
    if len(fits) == 1:
        state.inferred = fits[0].name
        expect(step)


def _is_settled(step: GroupStep) -> bool:
    state = step.state
    changed = max(state.expected_at, state.owner_changed_at)
    return state.rounds.known_at > changed + step.policy.assignment_settled_after


def _resolve(state: GroupState, declared: set[str], configured: str) -> tuple[str, Trust]:
    if configured:
        return configured, "CONFIGURED"
    if not declared:
        return state.strategy, state.strategy_basis
    strategy_named = strategy_of_class(next(iter(declared))) if len(declared) == 1 else None
    if strategy_named is not None and not takes_parameters(strategy_named):
        return strategy_named.name, "DECLARED"
    if (
        len(declared) == 1
        and state.inferred
        and state.inferred in ((strategy_named.name,) if strategy_named else NEED_NO_PARAMETERS)
    ):
        return state.inferred, "DECLARED" if strategy_named else "INFERRED"
    return "", ""


def _set_expected(step: GroupStep, mq: MessageQueue, client_id: str | None) -> None:
    queue = step.queue(mq)
    queue.expected_owner = client_id
    step.state.expected_at = step.now
    unassigned = queue.unassigned
    if unassigned is not None and client_id not in (None, unassigned.expected_owner):
        # Another expected owner gets its own time.
        queue.unassigned = Unassigned(step.now, lag=unassigned.lag, expected_owner=client_id)


def _plan(state: GroupState, info: ConsumerGroupInfo, policy: Policy) -> dict[MessageQueue, str | None]:
    expected: dict[MessageQueue, str | None] = {mq: None for route in state.routes.values() for mq in route.queues}
    chosen = strategy_of(state, policy)
    if chosen is not None and not broadcasts(state):
        popped = popped_topics(state)
        for topic in state.routes.keys() - popped if popped else state.routes:
            expected |= _shares(state, info, chosen, topic)
    return expected


def _shares(
    state: GroupState, info: ConsumerGroupInfo, chosen: AllocateStrategy, topic: str
) -> dict[MessageQueue, str | None]:
    route, cid_all = state.routes[topic], info.client_ids()
    if topic not in info.subscription_table or not route.queues or route.beyond:
        return {}
    try:
        return owners(chosen, state.group, route.queues, cid_all)
    except AllocationError:  # thrown in each client, too, which then keeps its queues
        return {}


def _explains(state: GroupState, info: ConsumerGroupInfo, candidate: AllocateStrategy) -> bool:
    """Return whether every queue of every topic is where the strategy assigns it, and there are enough to decide."""
    explained = 0
    for topic, route in state.routes.items():
        if topic in info.subscription_table and not topic.startswith(RETRY_TOPIC_PREFIX):
            shares = _shares(state, info, candidate, topic)
            if any(state.queues[mq].owner != shares.get(mq) for mq in route.queues):
                return False
            explained += len(route.queues)
    return explained > 1
