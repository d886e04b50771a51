"""The name server: which queues a topic has, as the brokers last said."""

from rebalance_model.entities import MessageQueue, queue_order


class NameServer:
    """Routes of readable queues. A route is the same object until it changes, so that nobody has to compare it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._routes: dict[str, tuple[MessageQueue, ...]] = {}

    def register(self, topic: str, broker: str, queues: int) -> None:
        """A broker says how many queues of a topic it has (REGISTER_BROKER)."""
        self._counts.setdefault(topic, {})[broker] = queues
        every = (MessageQueue(topic, name, i) for name, count in self._counts[topic].items() for i in range(count))
        self._routes[topic] = tuple(sorted(every, key=queue_order))

    def unregister(self, broker: str) -> None:
        """A broker has shut down (UNREGISTER_BROKER)."""
        for topic, counts in list(self._counts.items()):
            if counts.pop(broker, None) is not None:
                self._routes[topic] = tuple(queue for queue in self._routes[topic] if queue.broker != broker)

    def route(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The queues in the order in which clients sort them; None: there is no such topic."""
        return self._routes.get(topic) or None
