"""One consumer process: a real DefaultMQPushConsumer whose listener misbehaves on command.

The lab starts it as ``python -m streaming.lab.consumer ORDERS.json`` (`streaming.lab.control`).
"""

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jpype

from streaming.lab import processes
from streaming.lab.behaviour import ListenerBehaviour
from streaming.lab.control import INVISIBLE_MS, LOOK_SECONDS, ClientReport, ConsumerOrders, LabQueue, OrdersFile, report
from streaming.lab.network import Relay
from streaming.lab.processes import JavaObject

_CONSUME_THREADS = 16  # a hung queue occupies a thread: there must be one for each queue that a test hangs
_STARTS_MAX = 3  # start() fails if a broker of the topic does not answer within 3 s, because it is busy or starting
_SUSPEND_MS = 1_000  # after this time RocketMQ delivers a refused message again (its own default)


def _queue(message_queue: JavaObject) -> LabQueue:
    return LabQueue(message_queue.getTopic(), message_queue.getBrokerName(), int(message_queue.getQueueId()))


def _accepts(behaviour: ListenerBehaviour, messages: Sequence[JavaObject], message_queue: JavaObject) -> bool:
    """Return whether all messages are consumed; those that were popped come from any queue of their broker (-1)."""
    source = _queue(message_queue)
    return all(
        behaviour.accepts(
            LabQueue(source.topic, source.broker, int(one.getQueueId())),
            int(one.getQueueOffset()),
            int(one.getBornTimestamp()),
        )
        for one in messages
    )


@jpype.JImplements("org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly", deferred=True)
class JavaOrderedListener:
    """An ordered listener: a refused message blocks its queue, and RocketMQ delivers it again and again."""

    def __init__(self, behaviour: ListenerBehaviour) -> None:
        self._behaviour = behaviour
        self._status = jpype.JClass("org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus")

    @jpype.JOverride  # type: ignore[untyped-decorator]  # jpype has no types for it
    def consumeMessage(self, messages: Sequence[JavaObject], context: JavaObject) -> JavaObject:  # noqa: N802  Java's name
        """Consume a batch (MessageListenerOrderly.consumeMessage)."""
        if _accepts(self._behaviour, messages, context.getMessageQueue()):
            return self._status.SUCCESS
        context.setSuspendCurrentQueueTimeMillis(_SUSPEND_MS)
        return self._status.SUSPEND_CURRENT_QUEUE_A_MOMENT


@jpype.JImplements("org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently", deferred=True)
class JavaConcurrentListener:
    """A concurrent listener: a refused message goes to the retry topic; the queue continues."""

    def __init__(self, behaviour: ListenerBehaviour) -> None:
        self._behaviour = behaviour
        self._status = jpype.JClass("org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus")

    @jpype.JOverride  # type: ignore[untyped-decorator]  # jpype has no types for it
    def consumeMessage(self, messages: Sequence[JavaObject], context: JavaObject) -> JavaObject:  # noqa: N802  Java's name
        """Consume a batch (MessageListenerConcurrently.consumeMessage)."""
        accepted = _accepts(self._behaviour, messages, context.getMessageQueue())
        return self._status.CONSUME_SUCCESS if accepted else self._status.RECONSUME_LATER


def start_consumer(orders: ConsumerOrders, behaviour: ListenerBehaviour, relay: Relay) -> JavaObject:
    """Return a started DefaultMQPushConsumer; one whose start failed is unusable, so another is created."""
    for _ in range(_STARTS_MAX - 1):
        try:
            return _start_consumer(orders, behaviour, relay)
        except jpype.JException as error:
            report(ClientReport("not started", remark=str(error)))
    return _start_consumer(orders, behaviour, relay)


def _start_consumer(orders: ConsumerOrders, behaviour: ListenerBehaviour, relay: Relay) -> JavaObject:
    consumer = processes.new_client("org.apache.rocketmq.client.consumer.DefaultMQPushConsumer", orders, orders.group)
    consumer.setClientIP("127.0.0.1")
    consumer.setInstanceName(orders.instance)
    consumer.setSocksProxyConfig(relay.socks_proxy_config)
    events = ThreadPoolExecutor(1)  # one after the other, as in RocketMQ's own thread for them
    relay.connected = lambda address: events.submit(_channel_active, consumer, address).add_done_callback(Future.result)
    strategy = jpype.JClass(f"org.apache.rocketmq.client.consumer.rebalance.{orders.strategy}")
    consumer.setAllocateMessageQueueStrategy(strategy())
    consumer.setConsumeThreadMin(_CONSUME_THREADS)
    consumer.setConsumeThreadMax(_CONSUME_THREADS)
    consumer.setMaxReconsumeTimes(orders.max_reconsume_times)
    if orders.client == "remoting":
        consumer.setClientRebalance(False)  # else it pulls, whatever mode the brokers have for its group
        consumer.setPopInvisibleTime(INVISIBLE_MS)
    if orders.broadcasts:
        model = jpype.JClass("org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel")
        consumer.setMessageModel(model.BROADCASTING)
    consumer.subscribe(orders.topic, orders.expression)
    for topic in orders.also:
        consumer.subscribe(topic, "*")
    listener = JavaOrderedListener(behaviour) if orders.ordered else JavaConcurrentListener(behaviour)
    consumer.registerMessageListener(listener)
    consumer.start()
    consumer.setPullInterval(orders.pull_interval_ms)  # start() refuses more than 65535, a running client doesn't
    return consumer


def _channel_active(consumer: JavaObject, address: str) -> None:
    """Let the client send a heartbeat on its new channel and rebalance at once.

    It does so itself if a channel's address is a broker's (MQClientInstance's ChannelEventListener). Through the relay
    each channel has the relay's address, so this call passes the broker's.
    """
    client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory()
    client.getMQClientAPIImpl().getRemotingClient().getChannelEventListener().onChannelActive(address, None)


def owned(consumer: JavaObject) -> list[LabQueue]:
    """Return the queues that the client pulls and those that it pops, without those of the retry topic."""
    rebalance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
    tables = rebalance.getProcessQueueTable(), rebalance.getPopProcessQueueTable()
    queues = [_queue(queue) for table in tables for queue in table.keySet().toArray()]
    return sorted(queue for queue in queues if not queue.topic.startswith("%RETRY%"))


def main(path: Path) -> None:
    """Consume until SIGTERM, then leave the group cleanly."""
    orders_file = OrdersFile(path, ConsumerOrders)
    first = orders_file.orders
    asked_to_end = processes.start_jvm(first.jars, path.parent / first.name, first.security)
    behaviour = ListenerBehaviour(first)
    with Relay() as relay:
        _obey(relay, first)
        consumer = start_consumer(first, behaviour, relay)
        report(ClientReport("started"))
        reported: list[LabQueue] = []
        while not asked_to_end.wait(LOOK_SECONDS):
            if (orders := orders_file.changed()) is not None:
                _obey(relay, orders)
                behaviour.change(orders)
            if (now := owned(consumer)) != reported:
                reported = now
                report(ClientReport("owns", queues=now))
        consumer.shutdown()
    report(ClientReport("ended"))


def _obey(relay: Relay, orders: ConsumerOrders) -> None:
    if orders.cut and not relay.is_cut:
        relay.cut()
        report(ClientReport("cut"))
    elif relay.is_cut and not orders.cut:
        relay.heal()
        report(ClientReport("healed"))


if __name__ == "__main__":
    processes.run(lambda: main(Path(sys.argv[1])))
