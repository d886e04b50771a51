"""A consumer's settings that matter to rebalance, with their defaults (DefaultMQPushConsumer, ClientConfig)."""

from dataclasses import dataclass, field
from enum import StrEnum

from rebalance_model.allocation import AllocateStrategy, strategy
from rebalance_model.client import PULL_THRESHOLD_FOR_QUEUE
from rebalance_model.entities import RETRY_TOPIC_PREFIX


class MessageModel(StrEnum):
    """The receivers of a message: one member of the group, or every member."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(StrEnum):
    """The start of a queue without a committed offset; three deprecated values mean the first."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ConsumerKind(StrEnum):
    """The type of RocketMQ consumer."""

    PUSH = "PUSH"
    PULL = "PULL"
    """The old DefaultMQPullConsumer: its user requests queues and pulls them."""
    LITE_PULL = "LITE_PULL"


@dataclass(slots=True)
class ConsumerConfig:
    """Settings of one consumer; durations in milliseconds. `thresholds` overwrites the two thresholds of a queue."""

    group: str
    client_id: str
    kind: ConsumerKind = ConsumerKind.PUSH
    message_model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    strategy: AllocateStrategy = field(default_factory=lambda: strategy("AVG"))
    client_rebalance: bool = True
    """False: a concurrent CLUSTERING consumer requests its share from the broker (QUERY_ASSIGNMENT)."""
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp: int = 0
    """The start with TIMESTAMP; the consumer's own default is half an hour before it was created."""
    pull_interval: int = 0
    pull_threshold_for_queue: int = PULL_THRESHOLD_FOR_QUEUE
    pull_threshold_size_for_queue: int = 100
    """MiB."""
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    pull_time_delay_when_exception: int = 1000
    consume_concurrently_max_span: int = 2000
    consume_message_batch_max_size: int = 1
    consume_timeout: int = 15
    """Minutes."""
    max_reconsume_times: int = -1
    suspend_current_queue_time_millis: int = 1000

    @property
    def consume_type(self) -> str:
        """Return who decides when to pull: the client (CONSUME_PASSIVELY) or its user (MQConsumerInner.consumeType)."""
        return "CONSUME_PASSIVELY" if self.kind is ConsumerKind.PUSH else "CONSUME_ACTIVELY"

    @property
    def clustering(self) -> bool:
        """Return whether the group's members share the queues."""
        return self.message_model is MessageModel.CLUSTERING

    @property
    def orderly_max_reconsume_times(self) -> int:
        """Return how often an ordered message is tried; by default a failing message blocks its queue forever."""
        return 2**31 - 1 if self.max_reconsume_times == -1 else self.max_reconsume_times

    @property
    def retry_topic(self) -> str:
        """The topic that delivers the group's failed messages again."""
        return RETRY_TOPIC_PREFIX + self.group
