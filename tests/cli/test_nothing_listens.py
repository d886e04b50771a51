"""Commands whose server is not there: one plain sentence, soon."""

import os
import socket
import subprocess
import sys
import time
from threading import Timer

import pytest

from streaming.lab.servers import LOOPBACK, free_port
from streaming.log.kafka_handshake import _listening


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topic create", "error: Nothing listens at {0} or {1}: start Kafka, or correct source.bootstrap_servers.\n"),
        ("collect poll --once", "error: Nothing listens at {0} or {1}: start Kafka, or correct"),
        ("collect poll --once --to round.jsonl", "error: No name server of {0}, {1} answers ("),
    ],
)
def test_where_nothing_listens_one_sentence_says_so(command, said, tmp_path):
    servers = [f"{LOOPBACK}:{free_port()}" for _ in range(2)]
    environment = os.environ | {
        "REBALANCE_WATCH_SOURCE__KIND": "kafka",
        "REBALANCE_WATCH_SOURCE__BOOTSTRAP_SERVERS": ",".join(servers),
        "REBALANCE_WATCH_COLLECTOR__NAME_SERVERS": f'["{servers[0]}", "{servers[1]}"]',
    }
    words = [sys.executable, "-m", "streaming.cli", *command.split()]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    assert (ran.returncode, ran.stdout) == (4, "")
    assert ran.stderr.startswith(said.format(*servers))
    assert ran.stderr.count("\n") == 1
    assert not any(word in ran.stderr for word in ("Errno", "ECONN", "Kafka at", "Error"))


def test_a_kafka_that_starts_a_moment_later_is_waited_for():
    """As where everything is started at once."""
    port = free_port()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        late = Timer(0.5, lambda: (server.bind((LOOPBACK, port)), server.listen()))
        late.start()
        began = time.monotonic()
        assert _listening(f"{LOOPBACK}:{free_port()},{LOOPBACK}:{port}") == [(LOOPBACK, port)]
        assert time.monotonic() - began >= 0.4
        late.join()
