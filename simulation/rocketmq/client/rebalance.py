"""One run of rebalance for one consumer (RebalanceImpl, RebalancePushImpl).

Every consumer computes its own share from its own view: the topic's queues by the route, and the members as listed by
one random broker of the topic. The results are not compared.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

import msgspec

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, in_java_order
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumerKind, MessageModel
from simulation.rocketmq.client.host import BrokerError
from simulation.rocketmq.client.process_queue_table import (
    truncate_message_queue_not_my_topic,
    update_message_queue_assignment,
    update_process_queue_table,
)
from simulation.rocketmq.client.thresholds import share_out


async def try_rebalance(consumer: Consumer) -> bool:
    """Rebalance unless the consumer is paused; return False to be called again soon (tryRebalance)."""
    return not consumer.paused and await do_rebalance(consumer)


async def do_rebalance(consumer: Consumer) -> bool:
    """Rebalance every subscribed topic, then drop queues of topics that are no longer subscribed.

    Returns:
        Whether each topic's queues are now those of its assignment; if that could not be computed, the retry topic and
        a topic without route or member list count as balanced, too.
    """
    balanced = True
    for topic in list(consumer.subscription_inner):
        try:
            if _rebalances_itself(consumer):
                balanced &= await rebalance_by_topic(consumer, topic)
            else:
                balanced &= await get_rebalance_result_from_broker(consumer, topic)
        except Exception:  # noqa: BLE001  Java catches Throwable: a user's strategy or listener may throw anything
            balanced &= topic.startswith(RETRY_TOPIC_PREFIX)
    truncate_message_queue_not_my_topic(consumer)
    return balanced


def _rebalances_itself(consumer: Consumer) -> bool:
    config = consumer.config
    return config.kind is not ConsumerKind.PUSH or config.client_rebalance or config.orderly or not config.clustering


async def rebalance_by_topic(consumer: Consumer, topic: str) -> bool:
    """Compute this client's share of a topic and take it (rebalanceByTopic)."""
    if consumer.config.message_model is MessageModel.BROADCASTING:
        return await _broadcasting(consumer, topic)
    return await _clustering(consumer, topic)


async def _broadcasting(consumer: Consumer, topic: str) -> bool:
    mq_all = consumer.topic_subscribe_info_table.get(topic)
    if mq_all is None:
        await _announce_missing_topic(consumer, topic)
        return True
    need_lock = consumer.dialect.broadcasting_locked and _locks(consumer)
    return await _take_share(consumer, topic, dict.fromkeys(mq_all).keys(), mq_all, need_lock=need_lock)


async def _clustering(consumer: Consumer, topic: str) -> bool:
    config = consumer.config
    mq_all = consumer.topic_subscribe_info_table.get(topic)
    try:
        cid_all = await consumer.brokers.find_consumer_id_list(topic, config.group)
    except BrokerError:
        cid_all = None
    if mq_all is None and not topic.startswith(RETRY_TOPIC_PREFIX):
        await _announce_missing_topic(consumer, topic)
    if mq_all is None or cid_all is None:
        return True  # nothing changes, and the next attempt is at the usual time
    try:
        share = config.strategy.allocate(config.group, config.client_id, mq_all, in_java_order(cid_all))
    except Exception:  # noqa: BLE001  Java catches Throwable here, too
        return False  # the former share is kept
    return await _take_share(consumer, topic, dict.fromkeys(share or ()).keys(), mq_all, need_lock=_locks(consumer))


async def _take_share(
    consumer: Consumer, topic: str, share: AbstractSet[MessageQueue], mq_all: Sequence[MessageQueue], *, need_lock: bool
) -> bool:
    if await update_process_queue_table(consumer, topic, share, need_lock=need_lock):
        await message_queue_changed(consumer, topic, set(mq_all), share)
    return share == consumer.working_message_queues(topic)


async def get_rebalance_result_from_broker(consumer: Consumer, topic: str) -> bool:
    """Request this client's share of a topic from a broker and take it (getRebalanceResultFromBroker)."""
    config = consumer.config
    try:
        assignments = await consumer.brokers.query_assignment(
            topic, config.group, config.strategy.name, config.message_model
        )
    except BrokerError:
        return False
    if assignments is None:
        return False
    share = {each.message_queue for each in assignments if each.message_queue is not None}
    if await update_message_queue_assignment(consumer, topic, assignments, need_lock=_locks(consumer)):
        await message_queue_changed(consumer, topic, None, share)
    return share == consumer.working_message_queues(topic)


async def message_queue_changed(
    consumer: Consumer, topic: str, mq_all: AbstractSet[MessageQueue] | None, mq_divided: AbstractSet[MessageQueue]
) -> None:
    """Update subscription version and thresholds, send heartbeats, and call the user's listener (messageQueueChanged).

    The subscription's new version is the time: a broker that has not received the heartbeat yet refuses pulls with it
    (SUBSCRIPTION_NOT_LATEST), and a clock set back makes it older than the version that the broker has.
    """
    if consumer.config.kind is not ConsumerKind.PUSH:
        with suppress(Exception):  # these consumers log what the user's listener throws
            consumer.host.message_queue_changed(topic, mq_all, mq_divided)
        return
    subscription = consumer.subscription_inner[topic]
    consumer.subscription_inner[topic] = msgspec.structs.replace(subscription, sub_version=consumer.host.now())
    share_out(consumer.config, len(consumer.process_queue_table))
    await consumer.brokers.send_heartbeat_to_all_brokers()
    consumer.host.message_queue_changed(topic, mq_all, mq_divided)


async def _announce_missing_topic(consumer: Consumer, topic: str) -> None:
    if consumer.dialect.missing_topic_announced:
        await message_queue_changed(consumer, topic, set(), set())


def _locks(consumer: Consumer) -> bool:
    return consumer.config.kind is ConsumerKind.PUSH and consumer.config.orderly
