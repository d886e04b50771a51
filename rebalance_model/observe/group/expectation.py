"""Compute the expected owner of each queue: the strategy applied to the observed members and queues.

The strategy is the configured one (allocate_strategy), or the one that the members declare, or, if its class name is
not sufficient, the only one that explains the observed owners.
"""

from collections.abc import Collection
from functools import cache
from typing import Literal, TypeAlias

from rebalance_model.allocation import AllocateStrategy, AllocationError, strategy, strategy_of_class, takes_parameters
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.facts.group_facts import Division, GroupFacts, group_info
from rebalance_model.observe.group.configured_strategy import configured_strategy, owners
from rebalance_model.observe.policy import NEED_NO_PARAMETERS, Policy
from rebalance_model.observe.state import GroupState, Unassigned
from rebalance_model.observe.step import GroupStep

Basis: TypeAlias = tuple[list[str], frozenset[str], str] | None
"""The inputs of the expected owners: members (once per channel), topics, message model."""
DeclaredBasis: TypeAlias = tuple[frozenset[str], Division, frozenset[str]]
"""The facts on which they depend beside these: the strategies that members declare, how they share the queues, and the
popped topics."""
Trust: TypeAlias = Literal["DECLARED", "CONFIGURED", "INFERRED", ""]
_named = cache(strategy)


def basis(state: GroupState) -> Basis:
    """Return the inputs of the expected owners: while they are unchanged, so are the owners."""
    info = group_info(state)
    return None if info is None else (info.client_ids(), frozenset(info.subscription_table), state.message_model)


def declared_basis(facts: GroupFacts) -> DeclaredBasis:
    """Return what of the members' answers the expected owners depend on: while it is unchanged, so are the owners."""
    return facts.strategies, facts.division, frozenset(facts.popped)


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
    state, facts = step.state, step.facts
    info, declared = facts.info, facts.strategies
    if info is None or (state.members and not declared and not step.policy.allocate_strategy):
        return
    shared = facts.division in ("ACTIVE", "PROXIED")
    resolved = _resolve(state, declared, step.policy.allocate_strategy)
    state.strategy, state.strategy_basis = ("", "") if shared else resolved
    expected = _plan(facts, info)
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
    if (declared := step.facts.strategy) is None or (info := step.facts.info) is None:
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


def _resolve(state: GroupState, declared: frozenset[str], configured: str) -> tuple[str, Trust]:
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


def _plan(facts: GroupFacts, info: ConsumerGroupInfo) -> dict[MessageQueue, str | None]:
    state = facts.state
    expected: dict[MessageQueue, str | None] = {mq: None for route in state.routes.values() for mq in route.queues}
    chosen = strategy_of(state, facts.policy)
    if chosen is not None and not facts.broadcasts:
        popped = facts.popped
        for topic in state.routes.keys() - popped.keys() if popped else state.routes:
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
