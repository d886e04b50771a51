"""The simulated name server: the queues of each topic, as the brokers last registered them."""

from functools import cached_property

from rebalance_model.entities import MessageQueue, queue_order


class SimulatedRoute(tuple[MessageQueue, ...]):
    """A topic's readable queues, in the order in which clients sort them.

    The same object until it changes, so clients compare identities and share computed results.
    """

    @cached_property
    def brokers(self) -> list[str]:
        """The brokers that have queues of the topic, in the order of the queues."""
        return list(dict.fromkeys(queue.broker for queue in self))


class NameServer:
    """The routes of all topics."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._routes: dict[str, SimulatedRoute] = {}

    def register(self, topic: str, broker: str, queues: int) -> None:
        """Register how many queues of a topic a broker has (REGISTER_BROKER)."""
        self._counts.setdefault(topic, {})[broker] = queues
        every = (MessageQueue(topic, name, i) for name, count in self._counts[topic].items() for i in range(count))
        self._routes[topic] = SimulatedRoute(sorted(every, key=queue_order))

    def unregister(self, broker: str) -> None:
        """Remove a broker that shuts down (UNREGISTER_BROKER)."""
        for topic, counts in list(self._counts.items()):
            if counts.pop(broker, None) is not None:
                self._routes[topic] = SimulatedRoute(queue for queue in self._routes[topic] if queue.broker != broker)

    def route(self, topic: str) -> SimulatedRoute | None:
        """Return the topic's queues; None if the topic does not exist."""
        return self._routes.get(topic) or None
