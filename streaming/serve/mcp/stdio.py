"""Serve over standard input and output, until the input ends or a signal comes."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final

from streaming.serve.mcp.server import McpServer

_INPUT: Final = 0
_CHUNK_BYTES: Final = 65_536


def serve_stdio(server: McpServer) -> None:
    """Serve until the client closes the input, or SIGTERM.

    Raises:
        KeyboardInterrupt: SIGINT came.
    """
    with _input_that_a_signal_ends():
        server.run("stdio")


@contextmanager
def _input_that_a_signal_ends() -> Iterator[None]:
    """Read the standard input through a socket of this process: nothing can end a read of it that waits for a client.

    At a signal the server sees the end of its input, and ends as if its client had closed it.
    """
    client = os.dup(_INPUT)
    ours, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), _INPUT)
    theirs.close()
    received: list[int] = []

    def end(number: int | None = None, _: object = None) -> None:
        received.extend([] if number is None else [number])
        with suppress(OSError):  # it has ended already
            ours.shutdown(socket.SHUT_WR)

    def copy() -> None:
        with suppress(OSError):  # the server has ended
            while chunk := os.read(client, _CHUNK_BYTES):
                ours.sendall(chunk)
        end()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    Thread(target=copy, name="input", daemon=True).start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        raise KeyboardInterrupt
