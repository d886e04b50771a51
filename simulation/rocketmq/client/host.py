"""Protocols of a consumer's environment: the brokers, and the process in which the consumer runs.

The client model consists of coroutines without an event loop. Where the Java thread waits for an answer or a lock, the
coroutine awaits; the implementation of these protocols decides how long that takes and what else runs: a
simulation waits on its virtual clock, a test answers at once. So a client can be frozen or killed between its lock
request and the answer, as a real client can.
"""

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, Protocol, TypeAlias

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.errors import ModelError
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.consume_lock import ConsumeLock
from simulation.rocketmq.client.consumer_config import MessageModel
from simulation.rocketmq.client.pull_request import PopRequest, PullRequest


class BrokerError(ModelError):
    """A request that failed: no broker, no answer in time, or a response code other than SUCCESS."""


class RefusedError(BrokerError):
    """The broker answered with a response code other than SUCCESS (MQBrokerException)."""


class OffsetNotFoundError(RefusedError):
    """The broker has no offset (QUERY_NOT_FOUND)."""


class MessageQueueAssignment(msgspec.Struct, frozen=True):
    """A queue that a broker assigns to a client, and how to consume it (QUERY_ASSIGNMENT)."""

    message_queue: MessageQueue | None
    mode: Literal["PULL", "POP"] = "PULL"


class Brokers(Protocol):
    """The brokers as one client instance reaches them (MQClientInstance, MQClientAPIImpl, MQAdminImpl).

    Coroutines are requests with an answer, and raise BrokerError; plain methods are sent one-way.
    """

    async def find_consumer_id_list(self, topic: str, group: str) -> Sequence[str]:
        """Return the group's client ids from one random broker of the topic (GET_CONSUMER_LIST_BY_GROUP)."""

    async def query_assignment(
        self, topic: str, group: str, strategy_name: str, message_model: MessageModel
    ) -> Sequence[MessageQueueAssignment] | None:
        """Return this client's queues from one random broker; None if it can't compute them (QUERY_ASSIGNMENT)."""

    async def lock_batch_mq(
        self, broker: str, group: str, queues: AbstractSet[MessageQueue]
    ) -> AbstractSet[MessageQueue]:
        """Return the queues that this client holds after the request to the broker's master (LOCK_BATCH_MQ, 1 s)."""

    async def unlock_batch_mq(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Unlock queues and wait for the answer (UNLOCK_BATCH_MQ, 1 s)."""

    def unlock_batch_mq_one_way(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Unlock queues without waiting for an answer (UNLOCK_BATCH_MQ, one-way)."""

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int:
        """Return the committed offset (QUERY_CONSUMER_OFFSET, 5 s), or raise OffsetNotFoundError."""

    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset (UPDATE_CONSUMER_OFFSET)."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the newest message (GET_MAX_OFFSET)."""

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the first offset stored at or after a time (SEARCH_OFFSET_BY_TIMESTAMP)."""

    async def send_heartbeat_to_all_brokers(self) -> None:
        """Send the subscriptions to every broker (HEART_BEAT); failures are handled by the implementation."""

    async def send_message_back(self, group: str, queue: MessageQueue, message: Message, delay_level: int) -> None:
        """Send a failed message to the retry topic (CONSUMER_SEND_MSG_BACK); delay level 0: the broker chooses."""

    async def send_to_retry_topic(self, group: str, queue: MessageQueue, message: Message) -> None:
        """Send an ordered message after its last attempt to the retry topic, which moves it to the dead letters."""


Task: TypeAlias = Callable[[], Awaitable[None]]


class Host(Protocol):
    """The process of a client: its clock, its timers and its other threads. Delays are milliseconds."""

    def now(self) -> int:
        """Return the client's clock; epoch milliseconds."""

    async def released(self, lock: ConsumeLock, timeout: int | None) -> None:
        """Return when the lock may be free or the timeout (milliseconds) is over; None waits without limit."""

    def later(self, delay: int, task: Task) -> None:
        """Run a task on another thread after a delay (milliseconds)."""

    def pull_later(self, request: PullRequest, delay: int) -> None:
        """Hand a request to the pull service (executePullRequestLater); 0: at once."""

    def pop_later(self, request: PopRequest, delay: int) -> None:
        """Hand a request to the pull service (executePopPullRequestLater)."""

    def rebalance_later(self, delay: int) -> None:
        """Wake the rebalance thread after a delay; 0: at once (rebalanceLater, rebalanceImmediately)."""

    def message_queue_changed(
        self, topic: str, mq_all: AbstractSet[MessageQueue] | None, mq_divided: AbstractSet[MessageQueue]
    ) -> None:
        """Call the user's MessageQueueListener; `mq_all` is None if a broker computed the assignment."""
