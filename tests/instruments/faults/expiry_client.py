"""Clients of `expiry_run`: a consumer whose listener has a pace, and a producer; both obey lines of standard input.

    python -m tests.instruments.faults.expiry_client consume ORDERS.json LOG
    python -m tests.instruments.faults.expiry_client produce ORDERS.json LOG

The consumer is the lab's with another listener. Its lines: how many seconds a message takes; ``inf``: it hangs. At its
end it writes what it received, and where the broker's messages began meanwhile, by its own requests (GET_MIN_OFFSET).
The producer's lines: how many messages to send to each queue at once.
"""

import math
import sys
import time
from pathlib import Path
from threading import Condition, Thread

import jpype
import msgspec

from streaming.lab import processes
from streaming.lab.consumer import start_consumer
from streaming.lab.control import ConsumerOrders, read_orders
from streaming.lab.network import Relay

BODY = b"m" * 800
BATCH = 200
PER_SECOND = 30
"""The producer's messages to each queue; more on demand."""


class Received(msgspec.Struct, frozen=True):
    """A range of offsets of a queue that the listener received, and when it received the first one; both inclusive."""

    queue_id: int
    first: int
    last: int
    at: int


class Begins(msgspec.Struct, frozen=True):
    """The oldest offset of a queue that the broker stores, from a time on (epoch ms)."""

    queue_id: int
    oldest: int
    at: int


class Log(msgspec.Struct, frozen=True):
    """The consumer's own knowledge of the run."""

    received: list[Received]
    begins: list[Begins]


class Paced:
    """The behaviour of a listener for which each message takes equally long; it keeps what it received."""

    def __init__(self):
        self._pace, self._changed = 0.0, Condition()
        self.received = {}

    def change(self, seconds):
        """Change the pace at once, even in a thread that hangs."""
        with self._changed:
            self._pace = seconds
            self._changed.notify_all()

    def accepts(self, queue, offset, _sent):
        """Consume a message."""
        with self._changed:
            self.received.setdefault((queue.queue_id, offset), _now())
            pace = self._pace
            self._changed.wait_for(lambda: self._pace != pace, pace if math.isfinite(pace) else None)
        return True

    def ranges(self):
        """Return what it received."""
        ranges = []
        for (queue_id, offset), at in sorted(self.received.items()):
            if ranges and (ranges[-1].queue_id, ranges[-1].last + 1) == (queue_id, offset):
                ranges[-1] = msgspec.structs.replace(ranges[-1], last=offset)
            else:
                ranges.append(Received(queue_id, offset, offset, at))
        return ranges


def consume(orders, log):
    """Consume until standard input ends."""
    behaviour, begins, last = Paced(), [], {}
    with Relay() as relay:
        consumer = start_consumer(orders, behaviour, relay)
        print("started", flush=True)
        obeying = Thread(target=lambda: [behaviour.change(float(line)) for line in sys.stdin])
        obeying.start()
        queues = list(consumer.fetchSubscribeMessageQueues(orders.topic))
        while obeying.is_alive():
            for queue in queues:
                number, oldest = int(queue.getQueueId()), int(consumer.minOffset(queue))
                if oldest != last.get(number):
                    last[number] = oldest
                    begins.append(Begins(number, oldest, _now()))
            obeying.join(1.0)
        consumer.shutdown()
    log.write_bytes(msgspec.json.encode(Log(behaviour.ranges(), begins)))


def produce(orders):
    """Produce to every queue of the topics until standard input ends."""
    producer = processes.new_client("org.apache.rocketmq.client.producer.DefaultMQProducer", orders, "expiry-producer")
    producer.setClientIP("127.0.0.1")
    producer.start()
    message, listed = jpype.JClass("org.apache.rocketmq.common.message.Message"), jpype.java.util.Arrays.asList
    topics = (orders.topic, *orders.also)
    queues = {topic: list(producer.fetchPublishMessageQueues(topic)) for topic in topics}
    bursts = [0]

    def obey():
        for line in sys.stdin:
            bursts[0] += int(line)

    obeying = Thread(target=obey)
    obeying.start()
    print("started", flush=True)
    began, sent = time.monotonic(), 0
    while obeying.is_alive():
        due = int((time.monotonic() - began) * PER_SECOND) + bursts[0]
        if count := min(due - sent, BATCH):
            for topic, places in queues.items():
                for queue in places:
                    producer.send(listed(*[message(topic, BODY) for _ in range(count)]), queue)
            sent += count
        if sent == due:
            obeying.join(1.0)
    producer.shutdown()


def main(role, path, log):
    """Be one of the clients."""
    orders = read_orders(Path(path), ConsumerOrders)
    processes.start_jvm(orders.jars, Path(path).parent / orders.name, orders.security)
    if role == "consume":
        consume(orders, Path(log))
    else:
        produce(orders)


def _now():
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    processes.run(lambda: main(*sys.argv[1:]))
