"""The producer process: creates the topics with the admin API, then sends a few messages a second to each.

The lab starts it as ``python -m streaming.lab.producer ORDERS.json`` (`streaming.lab.control`).
"""

import sys
import time
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import jpype

from streaming.lab import processes
from streaming.lab.control import TAGS, ClientReport, NewUser, OrdersFile, PopSubscription, ProducerOrders, report
from streaming.lab.processes import JavaObject

_ALL_SHARE = 0
"""popShareQueueNum: every client pops from all queues."""
_ANSWER_MS = 5_000


def ordered_topics(pops: Iterable[PopSubscription]) -> set[str]:
    """Return the topics whose messages have an order."""
    return {one.topic for one in pops if one.ordered}


def set_up_groups(admin: JavaObject, broker: str, pops: Iterable[PopSubscription]) -> None:
    """Create the groups on a broker, and set the request mode of those whose clients ask for it.

    Args:
        admin: a started DefaultMQAdminExt.
        broker: the broker's address.
        pops: the groups with their topics, which exist.
    """
    group_config = jpype.JClass("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")
    mode = jpype.JClass("org.apache.rocketmq.common.message.MessageRequestMode")
    for pop in pops:
        config = group_config()
        config.setGroupName(pop.group)
        config.setConsumeMessageOrderly(pop.ordered)
        admin.createAndUpdateSubscriptionGroupConfig(broker, config)
        if pop.sets_mode:
            admin.setMessageRequestMode(broker, pop.topic, pop.group, mode.POP, _ALL_SHARE, _ANSWER_MS)


_BODY = "org.apache.rocketmq.remoting.protocol.body"
_ANY_ADDRESS = None


def create_users(admin: JavaObject, broker: str, users: Sequence[NewUser]) -> None:
    """Create the users that the broker does not know, and grant each its rights.

    Args:
        admin: a started DefaultMQAdminExt of the administrator.
        broker: the broker's address.
        users: the users; a broker keeps them in its store.
    """
    if not users:
        return
    known = {str(user.getUsername()) for user in admin.listUser(broker, "")}
    for user in users:
        if user.name in known:
            continue
        admin.createUser(broker, user.name, Path(user.password_file).read_text(), "Normal")
        rights = jpype.JClass(f"{_BODY}.AclInfo").of(
            f"User:{user.name}", _strings(user.resources), _strings(user.actions), _ANY_ADDRESS, "Allow"
        )
        admin.createAcl(broker, rights)


def _strings(texts: Sequence[str]) -> JavaObject:
    return jpype.JClass("java.util.Arrays").asList(*texts)


_KEYS = 64  # order numbers repeat; messages of one order go to one queue, in order
_ROUTE_SECONDS_MAX = 60.0


class Topics:
    """Sets the number of queues of the topics, and the users, on every broker."""

    def __init__(self, orders: ProducerOrders) -> None:
        self._admin = processes.new_client("org.apache.rocketmq.tools.admin.DefaultMQAdminExt", orders)
        self._admin.setInstanceName(f"{orders.name}-admin")
        self._admin.start()

    def make(self, orders: ProducerOrders) -> None:
        """Create missing users, create or change every topic, and wait until the name server returns the new route."""
        deadline = time.monotonic() + _ROUTE_SECONDS_MAX
        while time.monotonic() < deadline:
            with suppress(jpype.JException):  # a broker is still starting, or the name server has no route yet
                self._configure(orders)
                if all(self._is_routed(topic, queues, orders.brokers) for topic, queues in orders.topics.items()):
                    report(ClientReport("topics", topics=orders.topics))
                    return
            time.sleep(0.1)
        report(
            ClientReport("failed", remark=f"the name server's route lacks {orders.topics} on {list(orders.brokers)}")
        )

    def shutdown(self) -> None:
        """Shut the admin client down (DefaultMQAdminExt.shutdown)."""
        self._admin.shutdown()

    def _configure(self, orders: ProducerOrders) -> None:
        for address in orders.brokers.values():
            create_users(self._admin, address, orders.users)
        config = jpype.JClass("org.apache.rocketmq.common.TopicConfig")
        in_order = ordered_topics(orders.pops)
        for topic, queues in orders.topics.items():
            topic_config = config(topic, queues, queues)
            if topic in in_order:
                topic_config.getAttributes().put("+message.type", "FIFO")
            for address in orders.brokers.values():
                self._admin.createAndUpdateTopicConfig(address, topic_config)
        for address in orders.brokers.values():
            set_up_groups(self._admin, address, orders.pops)

    def _is_routed(self, topic: str, queues: int, brokers: Iterable[str]) -> bool:
        route = self._admin.examineTopicRouteInfo(topic)
        there = {str(data.getBrokerName()): int(data.getReadQueueNums()) for data in route.getQueueDatas()}
        return all(there.get(broker) == queues for broker in brokers)


class MessageSender:
    """Sends to every topic in turn, and continues when brokers fail."""

    def __init__(self, orders: ProducerOrders) -> None:
        self._producer = processes.new_client(
            "org.apache.rocketmq.client.producer.DefaultMQProducer", orders, "lab-producer"
        )
        self._producer.setClientIP("127.0.0.1")
        self._producer.setInstanceName(orders.name)
        self._producer.start()
        self._message = jpype.JClass("org.apache.rocketmq.common.message.Message")
        self._by_key = jpype.JClass("org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash")()
        self._properties = jpype.JClass("org.apache.rocketmq.common.message.MessageAccessor")
        self._sent = 0
        self._failing = False

    def send(self, topics: Iterable[str], in_order: Container[str] = ()) -> None:
        """Send one message to each topic; to those in order with the group of its message, as gRPC's producers do."""
        step, number = divmod(self._sent, _KEYS)
        key, tag = f"order-{number}", TAGS[(step + number) % len(TAGS)]
        body = jpype.JString(f'{{"order":"{key}","step":{step}}}').getBytes()
        self._sent += 1
        for topic in topics:
            message = self._message(topic, tag, key, body)
            if topic in in_order:
                self._properties.putProperty(message, "__SHARDINGKEY", key)
            try:
                self._send(message, key)
            except jpype.JException as error:
                self._say_once(failing=True, remark=str(error))
            else:
                self._say_once(failing=False)

    def _send(self, message: JavaObject, key: str) -> None:
        """Send to the queue of the message's order; if its broker is down, to any: RocketMQ then tries the others."""
        try:
            self._producer.send(message, self._by_key, jpype.JString(key))
        except jpype.JException:
            self._producer.send(message)

    def shutdown(self) -> None:
        """Shut the producer down (DefaultMQProducer.shutdown)."""
        self._producer.shutdown()

    def _say_once(self, *, failing: bool, remark: str = "") -> None:
        if failing != self._failing:
            self._failing = failing
            report(ClientReport("send fails" if failing else "sends again", remark=remark))


def main(path: Path) -> None:
    """Produce until SIGTERM."""
    orders_file = OrdersFile(path, ProducerOrders)
    first = orders_file.orders
    asked_to_end = processes.start_jvm(first.jars, path.parent / first.name, first.security)
    topics, sender = Topics(first), MessageSender(first)
    topics.make(first)
    while not asked_to_end.wait(1 / orders_file.orders.messages_per_second):
        if (orders := orders_file.changed()) is not None:
            topics.make(orders)
        sender.send(orders_file.orders.topics, ordered_topics(orders_file.orders.pops))
    sender.shutdown()
    topics.shutdown()


if __name__ == "__main__":
    processes.run(lambda: main(Path(sys.argv[1])))
