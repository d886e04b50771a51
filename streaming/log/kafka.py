"""The log as a Kafka topic."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ACLOperation, ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

from streaming.base.errors import NotFoundError, UnavailableError, UserError
from streaming.base.files import Closable
from streaming.log.kafka_handshake import check_handshake, client_name, refused_credentials
from streaming.log.kafka_properties import KafkaConnection, client_of
from streaming.log.rows import KeyedRow

ROW_BYTES_MAX = 2**24
"""The largest record that the topic accepts, as large as the largest row of a file: the job rejects rows over its own
limit (1 MB) with a reason, which it can do only if it receives them."""
_TIMESTAMP_TYPE, _LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"
DELIVERY_MS = 60_000
"""The longest time that a row may wait for Kafka's acknowledgement before the publisher fails with an error."""
_NEVER_MS = 2**31 - 1
_LINGER_MS = 100
"""The time that a row waits for others of its partition, unless there is a flush. With 20, Kafka's broker takes a third
more processor time for 1,000 rows a second."""
READER_OPERATIONS = (ACLOperation.READ, ACLOperation.DESCRIBE_CONFIGS)
"""The operations of the job on the topic; Read implies Describe."""


class KafkaPublisher(Closable):
    """Appends rows to the topic: acks=all, idempotent (retries neither repeat nor reorder), explicit partition."""

    flush_seconds = 1.0

    def __init__(
        self, connection: KafkaConnection, topic: str, partitions: int, *, resend_after_ms: int | None = None
    ) -> None:
        """Connect, and check the topic's partition count.

        ``resend_after_ms`` is for a writer that flushes often, keeps unacknowledged rows, and sends them again through
        a new publisher when a flush has waited this long. No row may expire by itself while a later one of its
        partition may still arrive: when `flush` gives up, Kafka must have a prefix of the rows that were written to a
        partition. Otherwise the earlier row, sent again after the later one, would look like a duplicate.

        Raises:
            UserError: Kafka can't be reached, or the topic does not exist or has another number of partitions.
        """
        self.partitions = partitions
        self.flushes = 0
        self._topic = topic
        self._connection = connection
        self._failure: BaseException | None = None
        self._closed = False
        self._resends = resend_after_ms is not None
        self._flush_seconds_max = (resend_after_ms or DELIVERY_MS) / 1000
        self._check_topic()
        self._producer = client_of(
            KafkaProducer,
            connection,
            acks="all",
            enable_idempotence=True,
            linger_ms=_LINGER_MS,
            delivery_timeout_ms=_NEVER_MS if self._resends else DELIVERY_MS,
            max_request_size=ROW_BYTES_MAX,
            allow_auto_create_topics=False,
        )

    def write(self, rows: Iterable[KeyedRow]) -> None:
        """Pass rows to the producer; raise the error of an earlier delivery."""
        for row in rows:
            self._raise_failure()
            try:
                future = self._producer.send(self._topic, value=row.value, key=row.key, partition=row.partition)
            except KafkaError as error:
                self._failed(error)
            else:
                future.add_errback(self._failed)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until Kafka has acknowledged every row."""
        try:
            self._producer.flush(timeout=self._flush_seconds_max)
        except KafkaError as error:
            self._failed(error)
        self._raise_failure()
        self.flushes += 1

    def close(self) -> None:
        """Flush and disconnect; do not wait for rows that failed before and will be sent again."""
        if not self._closed:
            self._closed = True
            try:
                if not self._resends or self._failure is None:
                    self.flush()
            finally:
                self._disconnect()

    def _check_topic(self) -> None:
        servers, topic = self._connection.servers, self._topic
        count = partition_count(self._connection, topic, ACLOperation.WRITE)
        if count is None:
            raise UserError(f"Kafka at {servers} has no topic {topic}: create it with `rebalance-watch topic create`.")
        if count != self.partitions:
            raise UserError(_other_count(topic, count, self.partitions))

    def _disconnect(self) -> None:
        try:
            self._producer.close(timeout=0 if self._failure else 5)
        except KafkaError:  # kafka-python 3.0.12 flushes there first, and raises before it has ended its thread
            self._producer._sender.force_close()  # noqa: SLF001  nothing public ends it
            self._producer.close(timeout=5)

    def _failed(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            if (refused := _refusal(self._connection, self._failure)) is not None:
                raise refused from None
            with suppress(UnavailableError):  # the topic may have been deleted, or created again with fewer partitions
                self._check_topic()
            raise UnavailableError(
                f"Kafka at {self._connection.servers} did not accept a row of topic {self._topic} ({self._failure}): "
                "check that the brokers are running, then start again."
            ) from self._failure


def partition_count(connection: KafkaConnection, topic: str, *operations: ACLOperation) -> int | None:
    """Return the topic's number of partitions; None if it does not exist.

    ``operations`` are those that this client must be allowed on it.

    Raises:
        UserError: Kafka can't be reached, or refuses this client or one of the operations.
    """
    with _admin(connection) as admin:
        (described,) = admin.describe_topics([topic])
    if described["error_code"] == TopicAuthorizationFailedError.errno:
        raise _forbidden(connection, topic, ACLOperation.DESCRIBE)
    allowed = described["authorized_operations"]  # none known of a topic that is not there, or by an old broker
    for operation in operations:
        if allowed and operation.name not in allowed:
            raise _forbidden(connection, topic, operation)
    return len(described["partitions"]) or None


def ids_of(connection: KafkaConnection, topic: str) -> tuple[str, str] | None:
    """Return the ids of the cluster and of the topic, empty where Kafka has none (before 2.8); None: no such topic.

    Raises:
        UserError: Kafka can't be reached, or refuses this client.
    """
    with _admin(connection) as admin:
        (described,) = admin.describe_topics([topic])
        cluster = admin.describe_cluster().get("cluster_id")
    if described["error_code"] == TopicAuthorizationFailedError.errno:
        raise _forbidden(connection, topic, ACLOperation.DESCRIBE)
    return (cluster or "", described.get("topic_id") or "") if described["partitions"] else None


def offsets_of(connection: KafkaConnection, topic: str) -> dict[int, tuple[int, int]]:
    """Return the first offset of each partition that is still there, and the one after the last.

    Raises:
        NotFoundError: there is no such topic.
        UserError: Kafka can't be reached, or refuses this client.
    """
    check_handshake(connection)
    try:
        consumer = client_of(KafkaConsumer, connection, enable_auto_commit=False, bootstrap_timeout_ms=10_000)
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            if not partitions:
                raise NotFoundError(f"{connection.servers} has no topic {topic}: run `rebalance-watch topic create`.")
            begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            return {one.partition: (begins[one], ends[one]) for one in partitions}
        finally:
            consumer.close()
    except KafkaError as error:
        raise failure_of(connection, error) from None


def appends_with_its_own_time(connection: KafkaConnection, topic: str) -> bool:
    """Return whether the broker stamps the topic's rows (LogAppendTime), not the producer.

    Raises:
        UserError: Kafka can't be reached or refuses.
    """
    with _admin(connection) as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_TIMESTAMP_TYPE: None})
        try:
            (configs,) = admin.describe_configs([resource], config_filter="all").values()
        except TopicAuthorizationFailedError:
            raise _forbidden(connection, topic, ACLOperation.DESCRIBE_CONFIGS) from None
        return str(configs[topic][_TIMESTAMP_TYPE]["value"]) == _LOG_APPEND_TIME


def create_topic(
    connection: KafkaConnection, topic: str, partitions: int, *, replication: int, retention_ms: int
) -> bool:
    """Create the topic; return False if it exists with this partition count.

    With LogAppendTime the broker's clock stamps every row: this is the ingest time, and an event's own time is
    checked against it.

    Raises:
        UserError: Kafka can't be reached or refuses, or the topic has another count (keys would move).
    """
    count = partition_count(connection, topic)
    if count is not None:
        if count != partitions:
            raise UserError(_other_count(topic, count, partitions))
        return False
    configs = {
        _TIMESTAMP_TYPE: _LOG_APPEND_TIME,
        "retention.ms": str(retention_ms),
        "max.message.bytes": str(ROW_BYTES_MAX),
    }
    wanted = {topic: {"num_partitions": partitions, "replication_factor": replication, "configs": configs}}
    with _admin(connection) as admin:
        (made,) = admin.create_topics(wanted, raise_errors=False)["topics"]
        if made["error_code"] == TopicAuthorizationFailedError.errno:
            raise _forbidden(connection, topic, ACLOperation.CREATE)
        if made["error_code"]:
            raise UserError(f"Kafka at {connection.servers} did not create the topic {topic}: {made['error_message']}")
        admin.wait_for_topics([topic])
    return True


@contextmanager
def _admin(connection: KafkaConnection) -> Iterator[KafkaAdminClient]:
    check_handshake(connection)
    try:
        admin = client_of(KafkaAdminClient, connection, bootstrap_timeout_ms=10_000)
        try:
            yield admin
        finally:
            admin.close()
    except KafkaError as error:
        raise failure_of(connection, error) from error


def failure_of(connection: KafkaConnection, error: KafkaError, group: str = "") -> UserError:
    """Return what to do about a failure of a client of Kafka, which is a member of a consumer group or of none."""
    if isinstance(error, GroupAuthorizationFailedError):
        return _forbidden(connection, group, ACLOperation.READ, "group")
    why = "" if isinstance(error, KafkaTimeoutError | KafkaConnectionError) else f" ({error})"  # they say no more
    return _refusal(connection, error) or UnavailableError(
        f"Kafka at {connection.servers} does not answer{why}: start it, or correct source.bootstrap_servers."
    )


def _refusal(connection: KafkaConnection, error: BaseException) -> UserError | None:
    """Return what to change if Kafka refuses this client; None if the failure may pass."""
    if isinstance(error, SaslAuthenticationFailedError):
        return UserError(refused_credentials(connection.servers, connection.properties))
    if isinstance(error, AuthorizationError):
        return UserError(
            f"Kafka at {connection.servers} refuses an operation of {client_name(connection.properties)} "
            f"({type(error).__name__}): grant the rights that conf/SECURED.md lists."
        )
    return None


def _forbidden(connection: KafkaConnection, resource: str, operation: ACLOperation, kind: str = "topic") -> UserError:
    name = operation.name.title().replace("_", "")
    principal = connection.properties.get("sasl_plain_username") or "…"
    return UserError(
        f"Kafka at {connection.servers} does not allow {client_name(connection.properties)} the operation {name} on "
        f"the {kind} {resource}: grant it with `kafka-acls --add --allow-principal User:{principal} --operation {name} "
        f"--{kind} {resource}`."
    )


def _other_count(topic: str, count: int, configured: int) -> str:
    return (
        f"The topic {topic} has {count} partitions, not {configured}: set source.partitions to {count}, "
        "or source.topic to a new one (a group's key would move to another partition)."
    )
