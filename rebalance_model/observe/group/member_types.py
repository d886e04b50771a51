"""The consume type and the message model that each member declares, and what most members declare.

A member declares both in its heartbeats and its answers. A broker keeps those of the last heartbeat for the whole group
(ConsumerGroupInfo.updateChannel), so a member that differs changes them for all until another's heartbeat. So most
members decide for the group here; while none has declared anything, what the brokers report counts.
"""

from collections import Counter
from collections.abc import Iterable

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.observe.state import BROADCASTING, CLUSTERING, PULL, PUSH, ClientView, GroupState


def _known_to_rocketmq(consume_type: str, message_model: str) -> tuple[str, str]:
    """Return a declaration without what RocketMQ does not know, such as the numbers of a client in C++."""
    return (
        consume_type if consume_type in (PUSH, PULL) else "",
        message_model if message_model in (CLUSTERING, BROADCASTING) else "",
    )


def note(state: GroupState, client_id: str, consume_type: str, message_model: str) -> bool:
    """Record what a client declares; return whether that is news."""
    client = state.clients[client_id]
    consume_type, message_model = _known_to_rocketmq(consume_type, message_model)
    declared = consume_type or client.consume_type, message_model or client.message_model
    if declared == (client.consume_type, client.message_model):
        return False
    client.consume_type, client.message_model = declared
    settle(state)
    return True


def settle(state: GroupState) -> None:
    """Decide again how the group consumes; without any declaration, as when the last member has left, it stays."""
    clients = [client for member in state.members if (client := state.clients.get(member)) is not None]
    state.consume_type = _most((c.consume_type for c in clients), state.consume_type, PUSH) or state.consume_type
    declared = _most((c.message_model for c in clients), state.message_model, CLUSTERING)
    state.message_model = declared or state.message_model


def take_reported(state: GroupState, info: ConsumerGroupInfo | None) -> None:
    """Use what a broker reports of the group, unless a member has declared it itself."""
    if info is None or not info.message_model or info.message_model == state.message_model:
        return
    if not any(client.message_model for client in state.clients.values()):
        state.message_model = info.message_model


def is_outsider(state: GroupState, client: ClientView) -> bool:
    """Return whether a client reads every queue by itself (BROADCASTING) in a group whose members divide them.

    Its queues and pulls say nothing about the owner of a queue.
    """
    return client.message_model == BROADCASTING and state.message_model == CLUSTERING


def _most(declared: Iterable[str], current: str, default: str) -> str:
    """Return what most declare; of several the current one, else the default. Empty: nobody declares any."""
    counted = Counter(one for one in declared if one)
    return max(counted, key=lambda one: (counted[one], one == current, one == default), default="")
