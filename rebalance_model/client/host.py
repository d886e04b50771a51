"""What a consumer asks of the world around it: the brokers, and the process that it lives in.

The model of the client is made of coroutines without an event loop. Where the Java thread waits, for an answer or for
a lock, the coroutine awaits; whoever implements these protocols decides how long that takes and what happens
meanwhile: a simulation on its virtual clock, a test at once. So a client can be frozen or killed between its lock
request and the answer, as in life.
"""

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, Protocol, TypeAlias

import msgspec

from rebalance_model.client.consume_lock import ConsumeLock
from rebalance_model.client.consumer_config import MessageModel
from rebalance_model.client.process_queue import Message
from rebalance_model.client.pull_request import PopRequest, PullRequest
from rebalance_model.entities import MessageQueue


class BrokerError(Exception):
    """A question that failed: nobody to ask, no answer in time, or an answer that is no SUCCESS."""


class RefusedError(BrokerError):
    """The broker did answer, and it was no SUCCESS (MQBrokerException)."""


class OffsetNotFoundError(RefusedError):
    """The broker knows of no offset (QUERY_NOT_FOUND)."""


class MessageQueueAssignment(msgspec.Struct, frozen=True):
    """One queue that a broker gives to a client, and how to consume it (QUERY_ASSIGNMENT)."""

    message_queue: MessageQueue | None
    mode: Literal["PULL", "POP"] = "PULL"


class Brokers(Protocol):
    """The brokers as one client instance reaches them (MQClientInstance, MQClientAPIImpl, MQAdminImpl).

    Coroutines are questions with an answer, and raise BrokerError; plain methods are sent one-way.
    """

    async def find_consumer_id_list(self, topic: str, group: str) -> Sequence[str]:
        """The group's client ids as one random broker of the topic sees them (GET_CONSUMER_LIST_BY_GROUP)."""

    async def query_assignment(
        self, topic: str, group: str, strategy_name: str, message_model: MessageModel
    ) -> Sequence[MessageQueueAssignment] | None:
        """This client's share as one random broker of the topic computes it; None where it can't (QUERY_ASSIGNMENT)."""

    async def lock_batch_mq(
        self, broker: str, group: str, queues: AbstractSet[MessageQueue]
    ) -> AbstractSet[MessageQueue]:
        """Those queues that this client holds after the call, asked of the broker's master (LOCK_BATCH_MQ, 1 s)."""

    async def unlock_batch_mq(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Give locks back, and wait for the answer (UNLOCK_BATCH_MQ, 1 s)."""

    def unlock_batch_mq_one_way(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Give locks back; nobody learns whether it arrived."""

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int:
        """The committed offset (QUERY_CONSUMER_OFFSET, 5 s); OffsetNotFoundError where there is none."""

    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset (UPDATE_CONSUMER_OFFSET)."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """One past the newest message (GET_MAX_OFFSET)."""

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The first offset stored at or after a time (SEARCH_OFFSET_BY_TIMESTAMP)."""

    async def send_heartbeat_to_all_brokers(self) -> None:
        """Tell every broker the subscriptions (HEART_BEAT); failures are the instance's own business."""

    async def send_message_back(self, group: str, queue: MessageQueue, message: Message, delay_level: int) -> None:
        """Have a message delivered again later by the retry topic (CONSUMER_SEND_MSG_BACK); 0: the broker's choice."""

    async def send_to_retry_topic(self, group: str, queue: MessageQueue, message: Message) -> None:
        """Send an ordered message whose tries are used up to the retry topic, and so to the dead letters."""


Task: TypeAlias = Callable[[], Awaitable[None]]


class Host(Protocol):
    """The process of a client: its clock, its timers and its other threads."""

    def now(self) -> int:
        """The client's own clock; milliseconds."""

    async def released(self, lock: ConsumeLock, timeout: int | None) -> None:
        """Come back as soon as the lock may be free, or when the time is over; None: however long it takes."""

    def later(self, delay: int, task: Task) -> None:
        """Run a task on another thread after a delay; milliseconds."""

    def pull_later(self, request: PullRequest, delay: int) -> None:
        """Hand a request to the pull service (executePullRequestLater); 0: at once."""

    def pop_later(self, request: PopRequest, delay: int) -> None:
        """Hand a request to the pull service (executePopPullRequestLater)."""

    def rebalance_later(self, delay: int) -> None:
        """Wake the rebalance thread after a delay; 0: at once (rebalanceLater, rebalanceImmediately)."""

    def message_queue_changed(
        self, topic: str, mq_all: AbstractSet[MessageQueue] | None, mq_divided: AbstractSet[MessageQueue]
    ) -> None:
        """The user's MessageQueueListener. `mq_all` is None where a broker computed the share."""
