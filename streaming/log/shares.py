"""Divide the consumer groups among collectors: each polls the groups whose events go to its partitions of the topic.

The collectors are members of a consumer group of Kafka, which assigns every partition of the telemetry topic to one of
them and reassigns those of a member that left or died. They read no rows: their partitions are paused.

No group is polled by two collectors in one round. All begin their rounds at the same times, multiples of the interval
of UTC. A partition counts from the first round that begins `SETTLED_SECONDS` after its assignment; Kafka assigns it
only after the former member has given it up, or has not been heard of for `SESSION_SECONDS`. A member that is not sure
to be one polls nothing: it confirms its membership by commits, which Kafka accepts from members alone, every
`CONFIRM_SECONDS`. So a collector that was cut off from Kafka, or stopped, ends before another one begins. The committed
offset is the end of the partition, so that monitors of lag show none.
"""

import time
from collections.abc import Iterable
from threading import Event, Lock, Thread
from typing import Any

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import ACLOperation
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import AuthorizationError, KafkaError
from kafka.structs import OffsetAndMetadata

from streaming.base.errors import UserError
from streaming.base.files import Closable
from streaming.log.kafka import failure_of, partition_count
from streaming.log.kafka_properties import KafkaConnection, client_of

log = structlog.get_logger()

SESSION_SECONDS = 10.0
"""Kafka reassigns the partitions of a member that it has not heard of for this time."""
CONFIRM_SECONDS = 2.0
CONFIRMED_SECONDS = 6.0
"""A membership that was confirmed within this time still stands, with some seconds to spare."""
SETTLED_SECONDS = 1.0
"""Longer than the clocks of two hosts differ (NTP)."""
_POLL_SECONDS = 0.3


class Shares(ConsumerRebalanceListener, Closable):  # type: ignore[misc]  # kafka-python has no types
    """The membership of this collector; it lasts until `close`."""

    def __init__(self, connection: KafkaConnection, topic: str, instance: str) -> None:
        """Join the collectors of a topic, by a name that Kafka shows as client id.

        Raises:
            UserError: Kafka can't be reached, or refuses the topic or the group.
        """
        partition_count(connection, topic, ACLOperation.READ)
        self._connection = connection
        self._instance = instance
        self._group = f"{topic}-collectors"
        self._since: dict[int, float] = {}
        self._confirmed = float("-inf")
        self._lock = Lock()
        self._refused: UserError | None = None
        self._was_member = True
        self._ended = Event()
        self._consumer = self._joining(topic)
        self._consumer.subscribe([topic], listener=self)
        self._thread = Thread(target=self._run, name="shares", daemon=True)
        self._thread.start()

    def _joining(self, topic: str) -> Any:
        consumer = None
        try:
            consumer = client_of(
                KafkaConsumer,
                self._connection,
                group_id=self._group,
                client_id=self._instance,
                session_timeout_ms=int(SESSION_SECONDS * 1000),
                heartbeat_interval_ms=int(CONFIRM_SECONDS * 1000),
                partition_assignment_strategy=[CooperativeStickyAssignor],
                enable_auto_commit=False,
                auto_offset_reset="latest",
                allow_auto_create_topics=False,
            )
            consumer.committed(TopicPartition(topic, 0))  # refused at once, not in a later round
        except KafkaError as error:
            if consumer is not None:
                consumer.close(autocommit=False)
            raise failure_of(self._connection, error, self._group) from None
        return consumer

    def partitions(self) -> frozenset[int]:
        """Return the partitions whose groups are polled in a round that begins now.

        Raises:
            UserError: Kafka refuses the membership.
        """
        if self._refused is not None:
            raise self._refused
        with self._lock:
            settled = frozenset(one for one, since in self._since.items() if time.time() - since > SETTLED_SECONDS)
            is_member = self._is_member()
        if self._was_member and settled and not is_member:
            log.warning("the membership in the collectors' group is not confirmed by Kafka: nothing is polled")
        self._was_member = is_member
        return settled if is_member else frozenset()

    def holds(self, partition: int) -> bool:
        """Return whether the partition is still this collector's: a round takes time, and a host may stop in it."""
        with self._lock:
            return partition in self._since and self._is_member()

    def close(self) -> None:
        """Leave: Kafka assigns the partitions to the others at once."""
        self._ended.set()
        self._thread.join(timeout=SESSION_SECONDS)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note the new partitions (called by Kafka's client)."""
        mine = list(assigned)
        if mine:
            self._consumer.pause(*mine)
        now = time.time()
        with self._lock:
            self._since |= {one.partition: now for one in mine if one.partition not in self._since}
        self._say()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Forget partitions that another collector gets, or has already got (called by Kafka's client)."""
        with self._lock:
            for one in revoked:
                self._since.pop(one.partition, None)
        self._say()

    def _is_member(self) -> bool:
        return time.monotonic() - self._confirmed < CONFIRMED_SECONDS

    def _say(self) -> None:
        log.info("partitions of this collector", partitions=sorted(self._since))

    def _run(self) -> None:
        next_confirmation = 0.0
        while not self._ended.is_set():
            try:
                self._consumer.poll(timeout_ms=int(_POLL_SECONDS * 1000))
                if time.monotonic() >= next_confirmation and self._confirm():
                    next_confirmation = time.monotonic() + CONFIRM_SECONDS
            except AuthorizationError as error:
                self._refused = failure_of(self._connection, error, self._group)
                break
            except KafkaError as error:
                log.debug("no answer from the collectors' group", error=str(error))
                self._ended.wait(_POLL_SECONDS)
        self._consumer.close(autocommit=False)

    def _confirm(self) -> bool:
        """Commit as a member; return whether Kafka accepted it."""
        mine = list(self._consumer.assignment())
        if not mine:
            return False
        self._consumer.pause(*mine)
        asked = time.monotonic()
        ends = self._consumer.end_offsets(mine)
        self._consumer.commit({one: OffsetAndMetadata(ends[one], self._instance, -1) for one in mine})
        with self._lock:
            self._confirmed = asked
        return True
