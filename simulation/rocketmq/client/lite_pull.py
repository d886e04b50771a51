"""Pull the queues of a lite-pull consumer, and hand over what comes (DefaultLitePullConsumerImpl, subscribe mode).

Each assigned queue has a task that pulls it ahead of the application. What is pulled waits in one cache until the
application calls poll(), which hands over the messages of one pull; they count as consumed at once. The position is
committed between two polls only, so an application that hangs commits nothing, while its queues are pulled until their
cache is full. No pull carries a commit. The methods pause() and seek() are not modelled.
"""

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from rebalance_model.entities import MessageQueue, queue_order
from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.pull_flow_control import CACHE_FLOW_CONTROL_DELAY, Pull, PullResult
from simulation.rocketmq.client.pull_offset import PullOffsetError, compute_pull_from_where

PULL_BATCH_SIZE = 10
"""pullBatchSize: the messages of one pull."""
PULL_THRESHOLD_FOR_ALL = 10_000
"""pullThresholdForAll: with more messages than this in the cache, no queue is pulled."""
BROKER_SUSPEND_MAX_TIME = 20_000
"""brokerSuspendMaxTimeMillis of DefaultLitePullConsumer."""
OFFSET_ERROR_DELAY = 3_000
"""PULL_TIME_DELAY_MILLS_ON_EXCEPTION: when a queue whose first offset is unknown is tried again; milliseconds."""
AUTO_COMMIT_INTERVAL = 5_000
"""autoCommitIntervalMillis by default."""
POLL_TIMEOUT = 5_000
"""pollTimeoutMillis: how long a poll without messages waits."""


@dataclass(slots=True, eq=False)
class AssignedQueue:
    """An assigned queue and its pull task (MessageQueueState and PullTaskImpl)."""

    message_queue: MessageQueue
    process_queue: CachingProcessQueue
    pull_offset: int = -1
    """Where the next pull begins; -1: where the group's commit is."""
    consume_offset: int = -1
    """The position after the messages that were handed over; -1: none were."""


@dataclass(slots=True, frozen=True)
class ConsumeRequest:
    """The messages of one pull (ConsumeRequest)."""

    queue: AssignedQueue
    messages: tuple[Message, ...]


@dataclass(slots=True, eq=False)
class LitePull:
    """The assigned queues of one consumer, and the cache from which its application polls."""

    consumer: Consumer
    commit_interval: int = AUTO_COMMIT_INTERVAL
    """The least time between two commits of the application's position; milliseconds."""
    assigned: dict[MessageQueue, AssignedQueue] = field(default_factory=dict)
    _cache: deque[ConsumeRequest] = field(default_factory=deque)
    _next_commit: int = 0

    def message_queue_changed(
        self, topic: str, mq_all: AbstractSet[MessageQueue], mq_divided: AbstractSet[MessageQueue]
    ) -> list[AssignedQueue]:
        """Take over the topic's share (MessageQueueListenerImpl); return the queues whose pull task begins."""
        share = mq_divided if self.consumer.config.clustering else mq_all
        for queue in [queue for queue in self.assigned if queue.topic == topic and queue not in share]:
            self.assigned.pop(queue).process_queue.dropped = True
        began = []
        for queue in sorted(share - self.assigned.keys(), key=queue_order):
            process_queue = self.consumer.process_queue_table.get(queue)
            process_queue = process_queue or CachingProcessQueue.created(self.consumer.host.now())
            self.assigned[queue] = AssignedQueue(queue, process_queue)
            began.append(self.assigned[queue])
        return began

    async def next_pull(self, queue: AssignedQueue) -> Pull | int | None:
        """Begin a round of a pull task (PullTaskImpl.run).

        Returns:
            The request to send; or a delay in milliseconds, after which the round is repeated; or None: the queue is
            no longer assigned, and the task ends.
        """
        if self._is_cancelled(queue):
            return None
        queue.process_queue.last_pull_timestamp = self.consumer.host.now()
        if self._is_full(queue.process_queue):
            return CACHE_FLOW_CONTROL_DELAY
        offset = queue.pull_offset
        if offset == -1:
            try:
                offset = await compute_pull_from_where(self.consumer, queue.message_queue)
            except PullOffsetError:
                return OFFSET_ERROR_DELAY
            if self._is_cancelled(queue):
                return None
        return Pull(offset, None, 0, max_messages=PULL_BATCH_SIZE, suspend=BROKER_SUSPEND_MAX_TIME)

    def on_pull_result(self, queue: AssignedQueue, result: PullResult) -> bool:
        """Process the answer; return whether the cache got messages."""
        if self._is_cancelled(queue):
            return False
        queue.pull_offset = result.next_begin_offset
        if not result.messages:
            return False
        queue.process_queue.put_message(result.messages)
        self._cache.append(ConsumeRequest(queue, tuple(result.messages)))
        return True

    def poll(self) -> ConsumeRequest | None:
        """Commit if that is due, and hand over the messages of the oldest pull; None: the cache is empty."""
        now = self.consumer.host.now()
        if now >= self._next_commit:
            self._commit_all()
            self._next_commit = now + self.commit_interval
        while self._cache:
            request = self._cache.popleft()
            process_queue = request.queue.process_queue
            if not process_queue.dropped:
                request.queue.consume_offset = process_queue.remove_message(request.messages, now)
                return request
        return None

    def _commit_all(self) -> None:
        """Store the position of each queue in memory (commitAll); the client's timer sends it within 5 s."""
        for mq, queue in self.assigned.items():
            if queue.consume_offset != -1 and not queue.process_queue.dropped:
                self.consumer.offset_store.update_offset(mq, queue.consume_offset, increase_only=False)

    def _is_cancelled(self, queue: AssignedQueue) -> bool:
        return self.assigned.get(queue.message_queue) is not queue or queue.process_queue.dropped

    def _is_full(self, process_queue: CachingProcessQueue) -> bool:
        config = self.consumer.config
        return (
            len(self._cache) * PULL_BATCH_SIZE > PULL_THRESHOLD_FOR_ALL
            or process_queue.msg_count > config.pull_threshold_for_queue
            or process_queue.msg_size_in_mib > config.pull_threshold_size_for_queue
            or process_queue.max_span > config.consume_concurrently_max_span
        )
