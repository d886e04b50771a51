"""Read a whole topic of a real Kafka."""

from kafka import KafkaConsumer, TopicPartition

from streaming.log.kafka_properties import client_of


def kafka_records(connection, topic, partitions):
    """Return everything in the topic, by partition."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    records = {partition: [] for partition in range(partitions)}
    consumer = client_of(KafkaConsumer, connection, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        consumer.assign(places)
        left = sum(consumer.end_offsets(places).values())
        while left > 0:
            for place, some in consumer.poll(timeout_ms=5_000).items():
                records[place.partition] += some
                left -= len(some)
    finally:
        consumer.close()
    return records
