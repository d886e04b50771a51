"""Who should have a queue: the strategy that the members declare, on the observed members and queues."""

from typing import TypeAlias

from rebalance_model.allocation import strategy_of_class
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.turn import Turn

Basis: TypeAlias = tuple[list[str], frozenset[str], str] | None
"""What the expected owners are worked out from: members (once a channel), topics, message model."""


def group_info(state: GroupState) -> ConsumerGroupInfo | None:
    """The view of the first broker that answers: a client, too, asks one broker of the topic for the members.

    A broker that has just started names nobody, and a client that is told of nobody stays as it is: as long as
    another broker names members, its view counts.
    """
    answering = [(not view.info.channel_info_table, broker) for broker, view in state.views.items() if not view.failing]
    return state.views[min(answering)[1]].info if answering else None


def basis(state: GroupState) -> Basis:
    """What the expected owners rest on: where it has not changed, they have not."""
    info = group_info(state)
    return None if info is None else (info.client_ids(), frozenset(info.subscription_table), info.message_model)


def broadcasts(state: GroupState) -> bool:
    """Whether every member reads every queue: then nobody owns any."""
    info = group_info(state)
    return info is not None and info.message_model == "BROADCASTING"


def declared_strategy(state: GroupState) -> str | None:
    """The strategy class that every member which has answered declares; None where they differ or none has."""
    declared = {c.strategy for m in state.members if (c := state.clients.get(m)) is not None and c.strategy}
    return declared.pop() if len(declared) == 1 else None


def expect(turn: Turn) -> None:
    """Work out anew who should own each queue.

    Nobody is expected where the model does not know the strategy, where a topic has no route or is not subscribed,
    and in groups that share queues by design. While no member has answered, what was expected before stands.
    """
    state = turn.state
    info = group_info(state)
    declared = declared_strategy(state)
    if info is None or (declared is None and state.members):
        return
    expected = _plan(state, info, declared)
    for mq in {**dict.fromkeys(expected), **dict.fromkeys(state.queues)}:
        if (queue := state.queues.get(mq)) is None or queue.expected != expected.get(mq):
            turn.queue(mq).expected = expected.get(mq)


def _plan(state: GroupState, info: ConsumerGroupInfo, declared: str | None) -> dict[MessageQueue, str | None]:
    expected: dict[MessageQueue, str | None] = {mq: None for route in state.routes.values() for mq in route.queues}
    strategy = strategy_of_class(declared or "")
    cid_all = info.client_ids()
    if strategy is None or not cid_all or broadcasts(state):
        return expected
    for topic, route in state.routes.items():
        if topic in info.subscription_table and route.queues:
            for cid, share in strategy.plan(state.group, route.queues, cid_all).items():
                expected |= dict.fromkeys(share or (), cid)
    return expected
