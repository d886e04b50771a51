"""A client that can't reach Kafka leaves no thread and no open file behind; the servers are real sockets."""

import gc
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from streaming.log.kafka_properties import KafkaConnection, KafkaNetwork, client_of


def frozen() -> socket.socket:
    """A server that answers nothing, as a Kafka that is stopped."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    return server


@pytest.fixture(autouse=True)
def _only_what_is_new_is_looked_at():
    """A look at all that the tests before have left takes half a second."""
    gc.freeze()


def open_resources() -> tuple[int, int]:
    gc.collect()  # an unclosed socket that it finds is a warning, and so an error
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaAdminClient, KafkaProducer])
def test_a_client_of_a_frozen_kafka_leaves_nothing(kind):
    with closing(frozen()) as server:
        connection = KafkaConnection(address(server))
        before = open_resources()
        for _ in range(3):
            with pytest.raises(KafkaError):
                client_of(kind, connection, bootstrap_timeout_ms=100)
        assert open_resources() == before


def test_a_connection_that_is_under_way_is_closed():
    with closing(frozen()) as server:
        before = open_resources()
        network = KafkaNetwork(bootstrap_servers=address(server))
        network.maybe_connect("bootstrap-0")
        network.poll(timeout_ms=0)  # the socket is connected, and its task has not heard of it
        network.close()
        assert open_resources() == before


def address(server):
    return f"127.0.0.1:{server.getsockname()[1]}"
