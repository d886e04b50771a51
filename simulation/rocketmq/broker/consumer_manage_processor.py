"""Process the requests of consumers about their group (ConsumerManageProcessor).

GET_CONSUMER_LIST_BY_GROUP 38, UPDATE_CONSUMER_OFFSET 15 and QUERY_CONSUMER_OFFSET 14. Static topics, whose queues move
between brokers, are not modelled.
"""

import msgspec

from rebalance_model.broker.broker_config import (
    QUERY_NOT_FOUND,
    SUBSCRIPTION_GROUP_NOT_EXIST,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from rebalance_model.broker.consumer_manager import ConsumerManager
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupManager


class Response(msgspec.Struct, frozen=True):
    """RocketMQ's response code and remark, and the requested value if the code is `SUCCESS`."""

    code: int
    remark: str | None = None
    consumer_ids: tuple[str, ...] = ()
    offset: int | None = None


class ConsumerManageProcessor(msgspec.Struct):
    """Answers from the broker's tables."""

    consumer_manager: ConsumerManager
    subscription_group_manager: SubscriptionGroupManager
    consumer_offset_manager: ConsumerOffsetManager

    def get_consumer_list_by_group(self, group: str) -> Response:
        """Return the members among which a client divides the queues: one id for each channel, so ids may repeat."""
        info = self.consumer_manager.consumer_table.get(group)
        if info is None or not info.channel_info_table:
            return Response(SYSTEM_ERROR, f"no consumer for this group, {group}")
        return Response(SUCCESS, consumer_ids=tuple(info.client_ids()))

    def update_consumer_offset(self, group: str, mq: MessageQueue, offset: int, *, topic_exists: bool) -> Response:
        """Commit a client's offset; while a reset offset is pending, the commit is answered but not stored."""
        offsets = self.consumer_offset_manager
        if offsets.dialect.offset_owner_checked:
            if not self.subscription_group_manager.contains_subscription_group(group):
                return Response(SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
            if not topic_exists:
                return Response(TOPIC_NOT_EXIST, f"Topic {mq.topic} not exist!")
        if offsets.resets and offsets.has_offset_reset(group, mq.topic, mq.queue_id):
            return Response(SUCCESS, "Offset has been previously reset")
        offsets.commit_offset(group, mq.topic, mq.queue_id, offset)
        return Response(SUCCESS)

    def query_consumer_offset(
        self,
        group: str,
        mq: MessageQueue,
        *,
        min_offset: int,
        zero_in_memory: bool,
        set_zero_if_not_found: bool = True,
    ) -> Response:
        """Return the offset at which a group continues with a queue.

        A group without an offset of a queue gets 0 as if it had one, as long as the queue's first message is still
        stored and in memory: so a new group may begin with existing messages, although its client requests the end.

        Args:
            group: the group.
            mq: the queue.
            min_offset: the smallest offset of the queue that the broker still stores.
            zero_in_memory: whether the message at offset 0 would be read from memory (checkInMemByConsumeOffset).
            set_zero_if_not_found: False if the client declines such a 0.
        """
        offsets = self.consumer_offset_manager
        stored = offsets.query_offset(group, mq.topic, mq.queue_id)
        if stored >= 0:
            return Response(SUCCESS, offset=stored)
        if not set_zero_if_not_found and offsets.dialect.zero_can_be_declined:
            return Response(QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
        if min_offset <= 0 and zero_in_memory:
            return Response(SUCCESS, offset=0)
        return Response(QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
