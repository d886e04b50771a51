"""One consumer of rocketmq-python-client behind a proxy.

    python consumer.py PROXY GROUP TOPIC push|simple

SIGUSR1 lets the simple one acknowledge nothing, SIGUSR2 ends that, SIGTERM leaves the group. It prints "started" and
"ended". It needs only that package, and no part of this repository.
"""

import signal
import sys
import time
from contextlib import suppress
from threading import Event

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    MessageListener,
    PushConsumer,
    SimpleConsumer,
)

AWAIT_SECONDS, INVISIBLE_SECONDS, MESSAGES_MAX = 10, 20, 8
proxy, group, topic, kind = sys.argv[1:]
ends, acknowledges = Event(), Event()
acknowledges.set()
signal.signal(signal.SIGTERM, lambda *_: ends.set())
signal.signal(signal.SIGUSR1, lambda *_: acknowledges.clear())
signal.signal(signal.SIGUSR2, lambda *_: acknowledges.set())


class Listener(MessageListener):
    """Consumes everything at once."""

    def consume(self, _):
        """Consume a message (MessageListener.consume)."""
        return ConsumeResult.SUCCESS


configuration, subscriptions = ClientConfiguration(proxy, Credentials()), {topic: FilterExpression()}
if kind == "push":
    consumer = PushConsumer(configuration, group, Listener(), subscriptions)
else:
    consumer = SimpleConsumer(configuration, group, subscriptions, await_duration=AWAIT_SECONDS)
consumer.startup()
print("started", flush=True)
while not ends.is_set():
    if kind == "push":
        ends.wait(1)
        continue
    received = []
    with suppress(Exception):  # its proxy is away
        received = consumer.receive(MESSAGES_MAX, INVISIBLE_SECONDS)
    if not received:
        time.sleep(1)
    for message in received or ():
        if acknowledges.is_set():
            with suppress(Exception):  # too late, or the proxy is away: the message comes back
                consumer.ack(message)
consumer.shutdown()
print("ended", flush=True)
