"""One consumer process of gRPC: a real PushConsumer or SimpleConsumer behind the proxy, which misbehaves on command.

The lab starts it as ``python -m streaming.lab.grpc_consumer ORDERS.json`` (`streaming.lab.control`). What it holds it
does not know: its proxy pops for it from whichever queue has messages.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import jpype

from streaming.lab import processes
from streaming.lab.behaviour import ListenerBehaviour
from streaming.lab.control import INVISIBLE_MS, LOOK_SECONDS, ClientReport, ConsumerOrders, LabQueue, OrdersFile, report
from streaming.lab.processes import JavaObject

_APIS = "org.apache.rocketmq.client.apis"
_CONSUME_THREADS = 16  # a hung queue occupies a thread
_RECEIVED_MAX = 8
_AWAIT_SECONDS = 10
_LAST_SECONDS_MAX = _AWAIT_SECONDS + 5  # the last messages that it asked for would come back only much later
_STARTS_MAX = 3  # it fails if the proxy is still looking for the topic's brokers
_PAUSE_SECONDS = 1.0


def _accepts(behaviour: ListenerBehaviour, message: JavaObject) -> bool:
    """Return whether a message is consumed. Only its receipt handle says where it is (ReceiptHandle.encode)."""
    _start, _pop_time, _invisible, _revive, _topic, broker, queue_id, offset, *_ = message.getReceiptHandle().split(" ")
    queue = LabQueue(message.getTopic(), broker, int(queue_id))
    return behaviour.accepts(queue, int(offset), int(message.getBornTimestamp()))


@jpype.JImplements(f"{_APIS}.consumer.MessageListener", deferred=True)
class GrpcListener:
    """The listener of a push consumer: a failed message comes back; in an ordered group the client tries it again."""

    def __init__(self, behaviour: ListenerBehaviour) -> None:
        self._behaviour = behaviour
        self._result = jpype.JClass(f"{_APIS}.consumer.ConsumeResult")

    @jpype.JOverride  # type: ignore[untyped-decorator]  # jpype has no types for it
    def consume(self, message: JavaObject) -> JavaObject:
        """Consume a message (MessageListener.consume)."""
        return self._result.SUCCESS if _accepts(self._behaviour, message) else self._result.FAILURE


def _receive(consumer: JavaObject, behaviour: ListenerBehaviour, asked_to_end: Event) -> None:
    """Receive for a simple consumer until the process ends; each message is consumed and acknowledged in a thread."""
    invisible = jpype.JClass("java.time.Duration").ofMillis(INVISIBLE_MS)

    def consume(message: JavaObject) -> None:
        if _accepts(behaviour, message):
            with suppress(jpype.JException):  # it was too late, or the proxy is away: the message comes back
                consumer.ack(message)

    with ThreadPoolExecutor(_CONSUME_THREADS) as pool:  # at its end what was received is consumed
        while not asked_to_end.is_set():
            try:
                for message in consumer.receive(_RECEIVED_MAX, invisible):
                    pool.submit(consume, message)
            except jpype.JException as error:
                if not asked_to_end.is_set():
                    report(ClientReport("receives nothing", remark=str(error)))
                    time.sleep(_PAUSE_SECONDS)


def start_consumer(orders: ConsumerOrders, behaviour: ListenerBehaviour) -> JavaObject:
    """Return a started consumer of the kind of the orders."""
    for _ in range(_STARTS_MAX - 1):
        try:
            return _start_consumer(orders, behaviour)
        except jpype.JException as error:
            report(ClientReport("not started", remark=str(error)))
            time.sleep(_PAUSE_SECONDS)
    return _start_consumer(orders, behaviour)


def _start_consumer(orders: ConsumerOrders, behaviour: ListenerBehaviour) -> JavaObject:
    provider = jpype.JClass(f"{_APIS}.ClientServiceProvider").loadService()
    configuration = jpype.JClass(f"{_APIS}.ClientConfiguration").newBuilder()
    configuration = configuration.setEndpoints(orders.proxy).enableSsl(False).build()  # noqa: FBT003  Java has no keywords
    everything = jpype.JClass(f"{_APIS}.consumer.FilterExpression").SUB_ALL
    subscriptions = jpype.JClass("java.util.Collections").singletonMap(orders.topic, everything)

    def configured(builder: JavaObject) -> JavaObject:
        builder = builder.setClientConfiguration(configuration).setConsumerGroup(orders.group)
        return builder.setSubscriptionExpressions(subscriptions)

    if orders.client == "grpc-simple":
        wait = jpype.JClass("java.time.Duration").ofSeconds(_AWAIT_SECONDS)
        return configured(provider.newSimpleConsumerBuilder()).setAwaitDuration(wait).build()
    builder = configured(provider.newPushConsumerBuilder()).setConsumptionThreadCount(_CONSUME_THREADS)
    return builder.setMessageListener(GrpcListener(behaviour)).build()


def main(path: Path) -> None:
    """Consume until SIGTERM, then leave the group cleanly."""
    orders_file = OrdersFile(path, ConsumerOrders)
    first = orders_file.orders
    asked_to_end = processes.start_jvm(first.jars, path.parent / first.name)
    behaviour = ListenerBehaviour(first)
    consumer = start_consumer(first, behaviour)
    receiver = Thread(target=_receive, args=(consumer, behaviour, asked_to_end), daemon=True)
    if first.client == "grpc-simple":
        receiver.start()
    report(ClientReport("started", client_id=str(consumer.getClientId())))
    while not asked_to_end.wait(LOOK_SECONDS):
        if (orders := orders_file.changed()) is not None:
            behaviour.change(orders)
    if receiver.is_alive():
        receiver.join(_LAST_SECONDS_MAX)
    consumer.close()
    report(ClientReport("ended"))


if __name__ == "__main__":
    processes.run(lambda: main(Path(sys.argv[1])))
