"""The broker's computation for clients that request it (QueryAssignmentProcessor, QUERY_ASSIGNMENT, since 5.0).

The broker's other state (routes, members, configurations) is passed as arguments. Unlike `allocate`, nothing here
raises: if a strategy refuses, the answer is None, and the client keeps its queues.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from rebalance_model.allocation.strategies import Averagely, AveragelyByCircle
from rebalance_model.allocation.strategy import AllocationError, CheckedStrategy
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, java_order, queue_order

LMQ_PREFIX = "%LMQ%"
"""A light message queue: a topic that has one queue on each broker (MixAll.LMQ_PREFIX)."""
ALL_QUEUES = -1
"""The queue id with which a POP client requests every queue of a topic on a broker."""

SUCCESS = 0
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
SUBSCRIPTION_GROUP_NOT_EXIST = 26

Mode = Literal["PULL", "POP"]

_STRATEGIES: dict[str, CheckedStrategy] = {kind.name: kind for kind in (Averagely(), AveragelyByCircle())}
# Characters that are white space for Python's str.isspace and not for Java's Character.isWhitespace.
_NOT_BLANK_IN_JAVA = frozenset("\x85\xa0\u2007\u202f")


class RequestMode(msgspec.Struct, frozen=True):
    """The way in which a group takes the messages of a topic (SetMessageRequestModeRequestBody)."""

    mode: Mode = "PULL"
    pop_share_queue_num: int = 0
    """The number of further clients whose queues each POP client also reads; 0 or less, or all others, means every
    queue."""


class QueryAssignment(msgspec.Struct, frozen=True):
    """A client's request (QueryAssignmentRequestBody)."""

    topic: str
    consumer_group: str
    client_id: str | None
    strategy_name: str | None
    message_model: Literal["BROADCASTING", "CLUSTERING"] = "CLUSTERING"


class MessageQueueAssignment(msgspec.Struct, frozen=True):
    """A queue that a client gets, and how it consumes the queue."""

    message_queue: MessageQueue
    mode: Mode


class QueryAssignmentProcessor(msgspec.Struct):
    """One broker's settings, and the modes that operators set on it."""

    broker_name: str
    server_load_balancer_enable: bool = True
    default_message_request_mode: Mode = "PULL"
    default_pop_share_queue_num: int = -1
    message_request_modes: dict[tuple[str, str], RequestMode] = {}
    """By topic and group (MessageRequestModeManager)."""

    def set_message_request_mode(
        self, topic: str, group: str, mode: RequestMode, *, topic_exists: bool, group_exists: bool
    ) -> tuple[int, str | None]:
        """Set the mode of a topic and group (SET_MESSAGE_REQUEST_MODE).

        Args:
            topic: the topic; a retry topic is always pulled.
            group: the consumer group.
            mode: taken as it is, any number of shared queues.
            topic_exists: whether the broker has a TopicConfig of that name.
            group_exists: whether the broker has, or makes, a SubscriptionGroupConfig of that name.

        Returns:
            Response code and remark; nothing is set unless the code is 0.
        """
        if topic.startswith(RETRY_TOPIC_PREFIX):
            return NO_PERMISSION, "retry topic is not allowed to set mode"
        if not topic_exists:
            return TOPIC_NOT_EXIST, f"topic[{topic}] not exist"
        if not group_exists:
            return SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
        self.message_request_modes[topic, group] = mode
        return SUCCESS, None

    def query_assignment(
        self, query: QueryAssignment, route: AbstractSet[MessageQueue] | None, cid_all: Iterable[str] | None
    ) -> frozenset[MessageQueueAssignment] | None:
        """Compute a client's assignment (QueryAssignmentProcessor.queryAssignment).

        Args:
            query: the request.
            route: the topic's queues (TopicRouteInfoManager.getTopicSubscribeInfo); None if there is no such topic.
            cid_all: one id for each member's channel, in any order; None if the broker doesn't know the group.

        Returns:
            The client's queues from now on; None: it keeps its current ones.
        """
        mode = self._mode(query)
        queues = self._load_balance(query, route, cid_all, mode)
        return None if queues is None else frozenset(MessageQueueAssignment(mq, mode.mode) for mq in queues)

    def _mode(self, query: QueryAssignment) -> RequestMode:
        mode = self.message_request_modes.get((query.topic, query.consumer_group))
        if mode is not None:
            return mode
        if query.topic.startswith(RETRY_TOPIC_PREFIX):
            return RequestMode("PULL")
        return RequestMode(self.default_message_request_mode, self.default_pop_share_queue_num)

    def _load_balance(
        self,
        query: QueryAssignment,
        route: AbstractSet[MessageQueue] | None,
        cid_all: Iterable[str] | None,
        mode: RequestMode,
    ) -> Iterable[MessageQueue] | None:
        """Compute the queues of one topic for a client (QueryAssignmentProcessor.doLoadBalance)."""
        if query.message_model == "BROADCASTING":
            return route
        if query.topic.startswith(LMQ_PREFIX):
            route = {MessageQueue(query.topic, self.broker_name, 0)}
        if route is None or not self.server_load_balancer_enable:
            return route
        strategy = _STRATEGIES.get(query.strategy_name or "")
        if cid_all is None or strategy is None:
            return None
        queues, clients = sorted(route, key=queue_order), sorted(cid_all, key=java_order)
        try:
            if mode.mode == "POP":
                return _allocate_for_pop(strategy, query, queues, clients, mode.pop_share_queue_num)
            return strategy.division(query.consumer_group, queues, clients)(query.client_id)
        except AllocationError:
            return None


def _allocate_for_pop(
    strategy: CheckedStrategy, query: QueryAssignment, mq_all: list[MessageQueue], cid_all: list[str], shared: int
) -> list[MessageQueue] | None:
    """Compute the queues that a client pops (QueryAssignmentProcessor.allocate4Pop).

    A POP queue has no single owner: each client reads its own share and those of the next clients in the list.
    """
    current_cid = query.client_id
    if shared <= 0 or shared >= len(cid_all) - 1:
        return [MessageQueue(mq.topic, mq.broker, ALL_QUEUES) for mq in mq_all]
    if len(cid_all) > len(mq_all):
        return _one_for_each(current_cid, mq_all, cid_all)
    share = strategy.division(query.consumer_group, mq_all, cid_all)
    if current_cid not in cid_all:
        return share(current_cid)
    place = cid_all.index(current_cid)
    return [mq for step in range(shared + 1) for mq in share(cid_all[(place + step) % len(cid_all)])]


def _one_for_each(
    current_cid: str | None, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
) -> list[MessageQueue] | None:
    """Give each client one queue, if there are more clients than queues (QueryAssignmentProcessor.allocate).

    Return None where Java throws and catches IllegalArgumentException.
    """
    if current_cid is None or _is_blank(current_cid) or not mq_all:
        return None
    return [mq_all[cid_all.index(current_cid) % len(mq_all)]] if current_cid in cid_all else []


def _is_blank(text: str) -> bool:
    """Return whether the text is empty or white space (StringUtils.isBlank)."""
    return all(char.isspace() and char not in _NOT_BLANK_IN_JAVA for char in text)
