"""Update the table of process queues to an assignment (RebalanceImpl).

The order matters: removed queues are dropped before any queue is added; the lock is requested before the offset; the
committed offset is read after the offset in memory is removed. If the offset can't be read the queue is not added, but
the broker's lock stays held.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from rebalance_model.broker.consumer_group_info import SUB_ALL, build_subscription_data
from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumeFromWhere, ConsumerKind
from simulation.rocketmq.client.host import MessageQueueAssignment
from simulation.rocketmq.client.pull_offset import PullOffsetError, compute_pull_from_where
from simulation.rocketmq.client.pull_request import PopProcessQueue, PopRequest, PullRequest
from simulation.rocketmq.client.queue_locks import lock
from simulation.rocketmq.client.removal import remove_unnecessary_message_queue

LOCK_RETRY_DELAY = 500
"""The delay until the rebalance thread is woken after a refused lock; milliseconds."""
POP_DISPATCH_DELAY = 500


async def update_process_queue_table(
    consumer: Consumer, topic: str, queues: AbstractSet[MessageQueue], *, need_lock: bool
) -> bool:
    """Update the topic's process queues to match the assignment (updateProcessQueueTableInRebalance).

    Returns:
        Whether the table changed. A dropped queue that had to stay does not count.
    """
    changed = await _remove(consumer, topic, queues)
    return await _add(consumer, queues, need_lock=need_lock) or changed


async def update_message_queue_assignment(
    consumer: Consumer, topic: str, assignments: Sequence[MessageQueueAssignment], *, need_lock: bool
) -> bool:
    """Update the process queues to match a broker's assignment, pull or pop (updateMessageQueueAssignment)."""
    # dict.fromkeys: Java's maps, too, hold a queue once; the order is the answer's.
    given = [(each.message_queue, each.mode) for each in assignments if each.message_queue is not None]
    pulled = dict.fromkeys(queue for queue, mode in given if mode == "PULL").keys()
    popped = dict.fromkeys(queue for queue, mode in given if mode == "POP").keys()
    _switch_pop_retry_topic(consumer, topic, pulled, popped)
    changed = await _remove(consumer, topic, pulled)
    changed = _remove_popped(consumer, topic, popped) or changed
    changed = await _add(consumer, pulled, need_lock=need_lock) or changed
    return _add_popped(consumer, popped) or changed


def truncate_message_queue_not_my_topic(consumer: Consumer) -> None:
    """Drop the queues of topics that are no longer subscribed.

    Nothing is committed and nothing is unlocked: up to 5 s of progress is lost, and locks linger at the broker.
    """
    _truncate(consumer, consumer.process_queue_table)
    _truncate(consumer, consumer.pop_process_queue_table)


def _truncate(
    consumer: Consumer, table: dict[MessageQueue, CachingProcessQueue] | dict[MessageQueue, PopProcessQueue]
) -> None:
    for queue in [queue for queue in table if queue.topic not in consumer.subscription_inner]:
        table.pop(queue).dropped = True


async def _remove(consumer: Consumer, topic: str, queues: AbstractSet[MessageQueue]) -> bool:
    now = consumer.host.now()
    pushed = consumer.config.kind is ConsumerKind.PUSH
    leaving = [
        (queue, process_queue)
        for queue, process_queue in consumer.process_queue_table.items()
        if queue.topic == topic and (queue not in queues or (pushed and process_queue.is_pull_expired(now)))
    ]
    for _, process_queue in leaving:
        process_queue.dropped = True
    changed = False
    for queue, process_queue in leaving:
        if await remove_unnecessary_message_queue(consumer, queue, process_queue):
            consumer.process_queue_table.pop(queue, None)
            changed = True
    return changed


async def _add(consumer: Consumer, queues: AbstractSet[MessageQueue], *, need_lock: bool) -> bool:
    all_locked = True
    requests: list[PullRequest] = []
    for queue in queues:
        if queue in consumer.process_queue_table:
            continue
        if need_lock and not await lock(consumer, queue):
            all_locked = False
            continue
        request = await _add_queue(consumer, queue)
        if request is not None:
            requests.append(request)
    if not all_locked and consumer.dialect.lock_failure_retried:
        consumer.host.rebalance_later(LOCK_RETRY_DELAY)
    if consumer.config.kind is ConsumerKind.PUSH:  # the other kinds pull when their user requests it
        for request in requests:
            consumer.host.pull_later(request, consumer.dialect.pull_dispatch_delay)
    return bool(requests)


async def _add_queue(consumer: Consumer, queue: MessageQueue) -> PullRequest | None:
    consumer.offset_store.remove_offset(queue)  # removeDirtyOffset: the offset in memory may be of an earlier ownership
    process_queue = CachingProcessQueue.created(consumer.host.now())
    process_queue.locked = True  # also for a concurrent consumer, which never reads it
    try:
        next_offset = await compute_pull_from_where(consumer, queue)
    except PullOffsetError:
        return None
    if queue in consumer.process_queue_table:
        return None  # another task added it while the offset was requested
    consumer.process_queue_table[queue] = process_queue
    return PullRequest(queue, process_queue, next_offset)


def _switch_pop_retry_topic(
    consumer: Consumer, topic: str, pulled: AbstractSet[MessageQueue], popped: AbstractSet[MessageQueue]
) -> None:
    """Subscribe or unsubscribe the pop retry topic when a topic changes between pull and pop.

    A client that pulls after popping must also read popped messages that failed; a broker delivers these to a popping
    client.
    """
    if topic.startswith(RETRY_TOPIC_PREFIX) or bool(pulled) == bool(popped):
        return
    retry_topic = f"{RETRY_TOPIC_PREFIX}{consumer.config.group}_{topic}"  # KeyBuilder.buildPopRetryTopic, v1
    if popped:
        consumer.subscription_inner.pop(retry_topic, None)
    else:
        now = consumer.host.now()
        consumer.subscription_inner[retry_topic] = build_subscription_data(retry_topic, SUB_ALL, now)


def _remove_popped(consumer: Consumer, topic: str, queues: AbstractSet[MessageQueue]) -> bool:
    now = consumer.host.now()
    leaving = [
        queue
        for queue, process_queue in consumer.pop_process_queue_table.items()
        if queue.topic == topic and (queue not in queues or process_queue.is_pull_expired(now))
    ]
    for queue in leaving:
        consumer.pop_process_queue_table.pop(queue).dropped = True
    return bool(leaving)


def _add_popped(consumer: Consumer, queues: AbstractSet[MessageQueue]) -> bool:
    new = [queue for queue in queues if queue not in consumer.pop_process_queue_table]
    from_start = consumer.config.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
    for queue in new:
        process_queue = PopProcessQueue(consumer.host.now())
        consumer.pop_process_queue_table[queue] = process_queue
        consumer.host.pop_later(PopRequest(queue, process_queue, "MIN" if from_start else "MAX"), POP_DISPATCH_DELAY)
    return bool(new)
