"""Send the events of a large cluster at a rate, each at its own time, until SIGTERM: the load of the soak.

    python -m tests.instruments.soak.sender KAFKA TOPIC PARTITIONS EVENTS_PER_SECOND FILE

writes to the file after each second how many events and rows Kafka has acknowledged. While Kafka is away it waits, and
then sends what it owes: no row is lost or sent twice.
"""

import signal
import sys
import time
from pathlib import Path
from threading import Event

import msgspec

from rebalance_model.observe.events import Tick
from streaming.base.files import replace_atomically
from streaming.log.kafka import KafkaPublisher
from streaming.log.kafka_properties import KafkaConnection
from streaming.log.rows import encode, rows_of
from tests.support.telemetry import live_telemetry

CLUSTER = "soak"
_AWAY_MS_MAX = 900_000
_BURST_SECONDS = 0.2
"""What is due in this time is sent together: to wake up for each event took half of the sender's processor time."""


class Sent(msgspec.Struct):
    """The events that Kafka has acknowledged."""

    events: int = 0
    rows: int = 0
    """Of an event that concerns no group there is one row in each partition."""
    behind_ms: int = 0
    """How much later than its own time the last event was sent."""
    has_ended: bool = False


def main(bootstrap: str, topic: str, partitions: int, rate: int, file: Path) -> None:
    """Send until SIGTERM."""
    stop, sent = Event(), Sent()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    start = time.time_ns() // 1_000_000
    with KafkaPublisher(KafkaConnection(bootstrap), topic, partitions, resend_after_ms=_AWAY_MS_MAX) as log:
        for event in live_telemetry(rate, start=start, cluster=CLUSTER):
            if (left := event.time / 1000 - time.time()) > 0:
                time.sleep(max(left, _BURST_SECONDS))
            rows = rows_of(event, encode(event), partitions)
            log.write(rows)
            sent.events += 1
            sent.rows += len(rows)
            if isinstance(event, Tick):
                log.flush()
                sent.behind_ms = time.time_ns() // 1_000_000 - event.time
                sent.has_ended = stop.is_set()
                replace_atomically(file, msgspec.json.encode(sent), durable=False)
                if sent.has_ended:
                    return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
