"""Compute where the first pull of a new queue begins (computePullFromWhereWithException)."""

from rebalance_model.entities import MessageQueue
from rebalance_model.errors import ModelError
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumeFromWhere, ConsumerKind
from simulation.rocketmq.client.host import BrokerError
from simulation.rocketmq.client.offset_store import NO_OFFSET, ReadOffsetType


class PullOffsetError(ModelError):
    """The offset can't be computed now (MQClientException): the queue is not added, and is retried later."""


_LITE_PULL_KNOWS = (ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.TIMESTAMP)


async def compute_pull_from_where(consumer: Consumer, queue: MessageQueue) -> int:
    """Return the offset of a queue's first pull.

    Each kind of consumer has its own rule (RebalancePushImpl, RebalancePullImpl, RebalanceLitePullImpl).

    Raises:
        PullOffsetError: it can't be read, or it is invalid.
    """
    config = consumer.config
    if config.kind is ConsumerKind.PULL:
        return 0  # such a consumer keeps its own offsets
    if config.kind is ConsumerKind.LITE_PULL and config.consume_from_where not in _LITE_PULL_KNOWS:
        msg = f"{config.consume_from_where} is unknown to a lite pull consumer"
        raise PullOffsetError(msg)
    push = config.kind is ConsumerKind.PUSH
    kind = ReadOffsetType.READ_FROM_STORE if push else ReadOffsetType.MEMORY_FIRST_THEN_STORE
    last = await consumer.offset_store.read_offset(queue, kind)
    if last >= 0:
        return last
    if last != NO_OFFSET:
        msg = "Failed to query consume offset from offset store"
        raise PullOffsetError(msg)
    first = await _first(consumer, queue)
    if first < 0:
        msg = f"Found unexpected result {first}"
        raise PullOffsetError(msg)
    return first


async def _first(consumer: Consumer, queue: MessageQueue) -> int:
    """Return the first offset of a queue that the group has never consumed.

    The group's retry topic is read from the start, whatever its setting; except with TIMESTAMP, from the end.
    """
    where = consumer.config.consume_from_where
    try:
        if where is ConsumeFromWhere.FIRST_OFFSET:
            return 0  # if the broker has deleted it, the pull is answered with OFFSET_ILLEGAL and corrected then
        if where is ConsumeFromWhere.TIMESTAMP:
            if queue.is_retry:
                return await consumer.brokers.max_offset(queue)
            return await consumer.brokers.search_offset(queue, consumer.config.consume_timestamp)
        return 0 if queue.is_retry else await consumer.brokers.max_offset(queue)
    except BrokerError as error:
        raise PullOffsetError(str(error)) from error
