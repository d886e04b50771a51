"""The handshake with a broker that answers without end."""

import socket
import threading
from contextlib import suppress

from streaming.log.kafka_handshake import check_handshake
from streaming.log.kafka_properties import KafkaConnection


def test_an_answer_without_end_is_not_read_for_ever(monkeypatch):
    """It announces 2 GB; the socket's own timeout is for each read."""
    monkeypatch.setattr("streaming.log.kafka_handshake.FRAME_BYTES", 1_000_000)
    sent = 0
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            nonlocal sent
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(b"\x7f\xff\xff\xff")
                while sent < 100_000_000:
                    connection.sendall(bytes(65_536))
                    sent += 65_536

        thread = threading.Thread(target=serve)
        thread.start()
        check_handshake(KafkaConnection(f"127.0.0.1:{listening.getsockname()[1]}", {}))
        thread.join()
    assert sent < 50_000_000
