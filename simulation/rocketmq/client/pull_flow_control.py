"""One pull of a queue: what delays it, and how its answer is processed (DefaultMQPushConsumerImpl.pullMessage).

Every round of a queue that is not dropped updates its pull time before flow control can delay it, so a queue under flow
control never counts as pull-expired, however long its listener hangs.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Literal, Protocol

import msgspec

from rebalance_model.client import PULL_BATCH_SIZE
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.offset_store import ReadOffsetType
from simulation.rocketmq.client.pull_offset import PullOffsetError, compute_pull_from_where
from simulation.rocketmq.client.pull_request import PullRequest
from simulation.rocketmq.client.removal import remove_process_queue

CACHE_FLOW_CONTROL_DELAY = 50
BROKER_FLOW_CONTROL_DELAY = 20
PAUSE_DELAY = 1_000
OFFSET_MEND_DELAY_4_9 = 10_000


class HeldBack(StrEnum):
    """The reason why a queue is not pulled in this round; in the order of the checks."""

    NOT_RUNNING = "NOT_RUNNING"
    PAUSED = "PAUSED"
    TOO_MANY_MESSAGES = "TOO_MANY_MESSAGES"
    TOO_MANY_BYTES = "TOO_MANY_BYTES"
    SPAN_TOO_LONG = "SPAN_TOO_LONG"
    """Concurrent only: one slow message keeps the committed offset back while others run ahead."""
    NOT_LOCKED = "NOT_LOCKED"
    OFFSET_UNKNOWN = "OFFSET_UNKNOWN"
    NOT_SUBSCRIBED = "NOT_SUBSCRIBED"


class Pull(msgspec.Struct, frozen=True):
    """A PULL_MESSAGE request; the client waits for 30 s."""

    offset: int
    commit_offset: int | None
    """The offset to commit with the pull, if there is one."""
    sub_version: int
    max_messages: int = PULL_BATCH_SIZE
    suspend: int = 15_000
    """The longest time that the broker may hold it (brokerSuspendMaxTimeMillis); milliseconds."""


class PullResult(msgspec.Struct, frozen=True):
    """The broker's answer, already filtered by tags."""

    status: Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]
    next_begin_offset: int
    messages: Sequence[Message] = ()


class ConsumeService(Protocol):
    """The destination of pulled messages: `OrderedConsumption` or `ConcurrentConsumption`."""

    def submit_consume_request(
        self, messages: Sequence[Message], process_queue: CachingProcessQueue, queue: MessageQueue, *, dispatch: bool
    ) -> None:
        """Submit messages for consumption; `dispatch` is the result of `ProcessQueue.put_message`."""


async def pull_message(consumer: Consumer, request: PullRequest) -> Pull | HeldBack | None:
    """Begin a round.

    Returns:
        The request to send; or the reason for a delay, after which the request is repeated; or None: the queue is
        dropped, and the request with it.
    """
    if request.process_queue.dropped:
        return None
    request.process_queue.last_pull_timestamp = consumer.host.now()
    held_back = _held_back(consumer, request.process_queue) or await _not_ready(consumer, request)
    if held_back is not None:
        consumer.host.pull_later(request, _delay(consumer, held_back))
        return held_back
    return Pull(
        request.next_offset,
        await _commit_offset(consumer, request.message_queue),
        consumer.subscription_inner[request.message_queue.topic].sub_version,
    )


def on_pull_result(consumer: Consumer, request: PullRequest, result: PullResult, service: ConsumeService) -> None:
    """Process the answer; the queue is pulled again at once, or after the pull interval."""
    request.next_offset = result.next_begin_offset
    queue, process_queue = request.message_queue, request.process_queue
    if result.status == "OFFSET_ILLEGAL":
        process_queue.dropped = True
        delay = 0 if consumer.dialect.offset_frozen else OFFSET_MEND_DELAY_4_9
        consumer.host.later(delay, partial(_mend_offset, consumer, request))
        return
    interval = 0
    if result.status == "FOUND":
        if result.messages:
            dispatch = process_queue.put_message(result.messages)
            service.submit_consume_request(result.messages, process_queue, queue, dispatch=dispatch)
            interval = max(consumer.config.pull_interval, 0)
    elif process_queue.msg_count == 0:  # no earlier message waits: filtered messages count as consumed
        consumer.offset_store.update_offset(queue, request.next_offset, increase_only=True)
    consumer.host.pull_later(request, interval)


def on_pull_error(consumer: Consumer, request: PullRequest, *, flow_control: bool) -> None:
    """Process a failed pull; `flow_control`: the broker rejected it because of load (FLOW_CONTROL)."""
    delay = BROKER_FLOW_CONTROL_DELAY if flow_control else consumer.config.pull_time_delay_when_exception
    consumer.host.pull_later(request, delay)


def _held_back(consumer: Consumer, process_queue: CachingProcessQueue) -> HeldBack | None:
    config = consumer.config
    if not consumer.running:
        return HeldBack.NOT_RUNNING
    if consumer.paused:
        return HeldBack.PAUSED
    if process_queue.msg_count > config.pull_threshold_for_queue:
        return HeldBack.TOO_MANY_MESSAGES
    if process_queue.msg_size_in_mib > config.pull_threshold_size_for_queue:
        return HeldBack.TOO_MANY_BYTES
    if not config.orderly and process_queue.max_span > config.consume_concurrently_max_span:
        return HeldBack.SPAN_TOO_LONG
    return None


async def _not_ready(consumer: Consumer, request: PullRequest) -> HeldBack | None:
    if consumer.config.orderly:
        if not request.process_queue.locked:
            return HeldBack.NOT_LOCKED
        if not request.previously_locked:
            # The former owner may have committed more between the creation of the request and its unlock.
            try:
                request.next_offset = await compute_pull_from_where(consumer, request.message_queue)
            except PullOffsetError:
                return HeldBack.OFFSET_UNKNOWN
            request.previously_locked = True
    return None if request.message_queue.topic in consumer.subscription_inner else HeldBack.NOT_SUBSCRIBED


def _delay(consumer: Consumer, held_back: HeldBack) -> int:
    match held_back:
        case HeldBack.TOO_MANY_MESSAGES | HeldBack.TOO_MANY_BYTES | HeldBack.SPAN_TOO_LONG:
            return CACHE_FLOW_CONTROL_DELAY
        case HeldBack.PAUSED:
            return PAUSE_DELAY
        case _:
            return consumer.config.pull_time_delay_when_exception


async def _commit_offset(consumer: Consumer, queue: MessageQueue) -> int | None:
    if not consumer.config.clustering:
        return None
    offset = await consumer.offset_store.read_offset(queue, ReadOffsetType.READ_FROM_MEMORY)
    return offset if offset > 0 else None


async def _mend_offset(consumer: Consumer, request: PullRequest) -> None:
    """Commit the offset that the broker returned and drop the queue; the next rebalance adds it from there."""
    queue, store = request.message_queue, consumer.offset_store
    if consumer.dialect.offset_frozen:
        store.update_and_freeze_offset(queue, request.next_offset)
    else:
        store.update_offset(queue, request.next_offset, increase_only=False)
    store.persist(queue)
    await remove_process_queue(consumer, queue)
    if consumer.dialect.offset_frozen:
        consumer.host.rebalance_later(0)
