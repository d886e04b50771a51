"""The name server: which queues a topic has, as the brokers last said."""

from functools import cached_property

from rebalance_model.entities import MessageQueue, queue_order


class Route(tuple[MessageQueue, ...]):
    """A topic's readable queues, in the order in which clients sort them.

    The same object until it changes, so that nobody has to compare it, or works out again what another has.
    """

    @cached_property
    def brokers(self) -> list[str]:
        """Those that have queues of it, in its order."""
        return list(dict.fromkeys(queue.broker for queue in self))


class NameServer:
    """Routes of topics."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._routes: dict[str, Route] = {}

    def register(self, topic: str, broker: str, queues: int) -> None:
        """A broker says how many queues of a topic it has (REGISTER_BROKER)."""
        self._counts.setdefault(topic, {})[broker] = queues
        every = (MessageQueue(topic, name, i) for name, count in self._counts[topic].items() for i in range(count))
        self._routes[topic] = Route(sorted(every, key=queue_order))

    def unregister(self, broker: str) -> None:
        """A broker has shut down (UNREGISTER_BROKER)."""
        for topic, counts in list(self._counts.items()):
            if counts.pop(broker, None) is not None:
                self._routes[topic] = Route(queue for queue in self._routes[topic] if queue.broker != broker)

    def route(self, topic: str) -> Route | None:
        """The topic's queues; None: there is no such topic."""
        return self._routes.get(topic) or None
