"""Answers without end in time or size, from a server that writes what the test says."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from streaming.base.http import Poster

SOON_SECONDS = 60
"""On a machine with other tests; the answers would never end."""


@contextmanager
def server(*parts, pause=0.0, forever=b""):
    """Serve one request on a raw socket: these bytes, with a pause before each, then others for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end = threading.Event()

        def serve():
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                for part in parts:
                    connection.sendall(part)
                    end.wait(pause)
                while forever and not end.is_set():
                    connection.sendall(forever)
                    end.wait(pause)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        end.set()
        thread.join()


HEAD = b"HTTP/1.1 503 Away\r\n\r\n"


def test_an_answer_is_read():
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") as url, Poster(5, 100) as poster:
        answer = poster.post(url, content=b"x")
    assert (answer.status, answer.body, answer.is_success) == (200, b"hi", True)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b""])
def test_headers_that_come_a_byte_at_a_time_are_not_waited_for(head):
    with server(head, pause=0.05, forever=b"X") as url, Poster(0.4, 100) as poster:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            poster.post(url)
        assert time.monotonic() - began < SOON_SECONDS


def test_of_a_body_that_comes_a_byte_at_a_time_the_beginning_is_kept():
    with server(HEAD, pause=0.05, forever=b"X") as url, Poster(2, 100) as poster:
        began = time.monotonic()
        answer = poster.post(url)
        assert time.monotonic() - began < SOON_SECONDS
    assert answer.status == 503
    assert set(answer.body) <= set(b"X")


def test_of_a_body_without_end_no_more_than_the_limit_is_read():
    with server(HEAD, forever=b"X" * 65_536) as url, Poster(30, 1_000) as poster:
        began = time.monotonic()
        answer = poster.post(url)
        assert time.monotonic() - began < SOON_SECONDS
    assert (answer.status, answer.body) == (503, b"X" * 1_000)


def test_a_compressed_body_is_not_unpacked():
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"
    with server(packed) as url, Poster(5, 100) as poster:
        assert poster.post(url).body == b"\x1f\x8b\x08\x00"
