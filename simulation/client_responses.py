"""A simulated client's answer to GET_CONSUMER_RUNNING_INFO (307)."""

import msgspec

from rebalance_model.broker.consumer_group_info import SubscriptionData
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import PopProcessQueueInfo, ProcessQueueInfo, RpcError, Subscription
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer_config import ConsumerConfig, ConsumerKind
from simulation.rocketmq.client.lite_pull import PULL_BATCH_SIZE

CLIENT_VERSION = "V5_4_0"
REFUSALS = {
    1: RpcError(code=1, remark="the go client has not supported consumer running info"),
    3: RpcError(code=3, remark=" request type 307 not supported"),
}
"""The answers of clients that do not know the request: older ones in Go, and any by NettyRemotingAbstract's rule."""


class RunningInfo(msgspec.Struct, frozen=True):
    """The fields of a CONSUMER_RUNNING_INFO event that the client fills."""

    orderly: bool
    strategy: str
    start_time: int
    properties: dict[str, str]
    subscriptions: tuple[Subscription, ...]
    queues: tuple[ProcessQueueInfo, ...]
    pop_queues: tuple[PopProcessQueueInfo, ...] = ()


ClientAnswer = RunningInfo | RpcError


def subscriptions(by_topic: dict[str, SubscriptionData]) -> tuple[Subscription, ...]:
    """Return subscriptions as in events, sorted by topic."""
    return tuple(
        Subscription(
            topic=one.topic,
            sub_string=one.sub_string,
            expression_type=one.expression_type,
            sub_version=one.sub_version,
        )
        for one in sorted(by_topic.values(), key=lambda one: one.topic)
    )


def properties(config: ConsumerConfig) -> dict[str, str]:
    """Return a consumer's settings as the client reports them."""
    common = {
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
        "PROP_CONSUME_TYPE": config.consume_type,
        "messageModel": config.message_model,
        "consumeFromWhere": config.consume_from_where,
    }
    return common | (_of_lite_pull(config) if config.kind is ConsumerKind.LITE_PULL else _of_push(config))


def _of_lite_pull(config: ConsumerConfig) -> dict[str, str]:
    return {
        "pullBatchSize": str(PULL_BATCH_SIZE),
        "pullThresholdForQueue": str(config.pull_threshold_for_queue),
        "pullThresholdSizeForQueue": str(config.pull_threshold_size_for_queue),
    }


def _of_push(config: ConsumerConfig) -> dict[str, str]:
    return {
        **({} if config.client_rebalance else {"popThresholdForQueue": "96"}),
        "pullInterval": str(config.pull_interval),
        "pullBatchSize": "32",
        "pullThresholdForQueue": str(config.pull_threshold_for_queue),
        "pullThresholdSizeForQueue": str(config.pull_threshold_size_for_queue),
        "pullThresholdForTopic": str(config.pull_threshold_for_topic),
        "consumeConcurrentlyMaxSpan": str(config.consume_concurrently_max_span),
        "consumeMessageBatchMaxSize": str(config.consume_message_batch_max_size),
        "consumeTimeout": str(config.consume_timeout),
        "maxReconsumeTimes": str(config.max_reconsume_times),
        "suspendCurrentQueueTimeMillis": str(config.suspend_current_queue_time_millis),
    }


def row(queue: MessageQueue, process_queue: CachingProcessQueue, offset: int) -> ProcessQueueInfo:
    """Return one queue of the client's mqTable with its offset in memory."""
    cached = process_queue.msg_tree_map.offsets
    taken = process_queue.consuming_msg_orderly_tree_map.offsets
    return ProcessQueueInfo(
        mq=queue,
        commit_offset=max(offset, -1),
        cached_count=len(cached),
        cached_min=cached[0] if cached else 0,
        cached_max=cached[-1] if cached else 0,
        transaction_count=len(taken),
        transaction_min=taken[0] if taken else 0,
        transaction_max=taken[-1] if taken else 0,
        locked=process_queue.locked,
        lock_time=process_queue.last_lock_timestamp,
        dropped=process_queue.dropped,
        pull_time=process_queue.last_pull_timestamp,
        consume_time=process_queue.last_consume_timestamp,
        unlock_attempts=process_queue.try_unlock_times,
    )
