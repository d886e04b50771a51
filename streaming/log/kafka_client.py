"""The clients of kafka-python, which leave nothing open: neither closed, nor when they could not start."""

from typing import Any

from kafka.net.compat import KafkaNetClient

from streaming.log.kafka_properties import KafkaConnection


class KafkaNetwork(KafkaNetClient):  # type: ignore[misc]  # kafka-python has no types
    """The connections of one client.

    kafka-python 3.0.12 leaves a connection that is still under way to the garbage collector.
    """

    def close(self, node_id: object = None) -> None:
        """Close the connection to one broker; without one: every connection, and the client's thread."""
        if node_id is not None:
            super().close(node_id)
            return
        self._manager.close()
        self._net.stop()
        under_way = [key.fileobj for key in self._net._selector.get_map().values()]  # noqa: SLF001  nothing public lists them
        self._net.close()
        for socket in under_way:
            socket.close()


def client_of(kind: type[Any], connection: KafkaConnection, **own: object) -> Any:
    """Return a client of kafka-python; it gets those of the connection's properties that it knows.

    A client that can't reach Kafka, which kafka-python would leave with its thread and three open files, is closed.

    Raises:
        KafkaError: Kafka does not respond, or refuses the client.
    """
    shared = {name: value for name, value in connection.properties.items() if name in kind.DEFAULT_CONFIG}
    networks: list[KafkaNetwork] = []

    def network(**properties: object) -> KafkaNetwork:
        networks.append(KafkaNetwork(**properties))
        return networks[-1]

    try:
        return kind(bootstrap_servers=connection.servers.split(","), kafka_client=network, **(shared | own))
    except BaseException:
        for one in networks:
            one.close()
        raise
