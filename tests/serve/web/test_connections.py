"""The limits on connections, by a real server: who only waits makes room, who asks is answered."""

import asyncio
import os
import resource
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from streaming.base.limits import HEADER_BYTES
from streaming.lab.security import Authority
from streaming.serve.web import http_server
from streaming.serve.web.api.errors import Faults
from streaming.serve.web.http_server import Phase
from tests.support.served import answering
from tests.support.waiting import until

SECONDS = 60
"""Nothing but a hang takes so long."""
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
HALF_BODY = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf"
ENDLESS = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
ASKED = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
IN_ALL, OF_SENDER = 12, 6


class Site:
    """An application whose slow answer comes when it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Semaphore(0)

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self.echo, methods=["GET", "POST"]),
                Route("/slow", self.slow),
                Route("/large", self.large),
                WebSocketRoute("/socket", self.socket),
            ],
            middleware=[Middleware(Faults)],
        )

    async def echo(self, request: Request) -> Response:
        return PlainTextResponse(await request.body() or b"here")

    async def slow(self, _: Request) -> Response:
        self.asked.release()
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("late")

    async def large(self, _: Request) -> Response:
        return PlainTextResponse(bytes(20_000_000))

    async def socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)


@pytest.fixture
def limits(monkeypatch):
    """Lower the number of connections of one sender, look often, and wait for long."""
    for phase in http_server._SECONDS:
        monkeypatch.setitem(http_server._SECONDS, phase, 10 * SECONDS)
    monkeypatch.setattr(http_server, "SENDER_CONNECTIONS", OF_SENDER)
    monkeypatch.setattr(http_server, "_LOOK_SECONDS", 0.05)


@contextmanager
def site(**options):
    served = Site()
    with answering(served.app, connections=IN_ALL, **options) as address:
        try:
            yield served, address
        finally:
            served.may_answer.set()


def opened(stack: ExitStack, address: str, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    at = urlsplit(address)
    connection = socket.create_connection((at.hostname, at.port), timeout=SECONDS, source_address=(source, 0))
    stack.enter_context(connection)
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server has closed a connection or answered."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def answers(address: str) -> bool:
    return httpx.get(address, timeout=SECONDS, verify=False).text == "here"


@pytest.mark.parametrize(
    "sent", [b"", HALF, HALF_BODY, ENDLESS, ASKED], ids=["silent", "half", "body", "chunks", "idle"]
)
def test_whoever_waits_makes_room_for_who_asks(limits, sent, caplog):
    with ExitStack() as stack, site() as (_, address):
        first, *_ = [opened(stack, address, sent) for _ in range(3 * IN_ALL)]
        assert answers(address)
        first.settimeout(SECONDS)
        while not is_closed(first):
            pass
        said = f"more than {OF_SENDER} of one address"
        until(lambda: said in caplog.text, SECONDS)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_request_at_work_and_an_old_page_are_not_given_up(limits):
    with ExitStack() as stack, site() as (served, address):
        page = stack.enter_context(connect(f"{address.replace('http', 'ws')}/socket", proxy=None))
        working = [opened(stack, address, SLOW) for _ in range(2)]
        for _ in working:
            assert served.asked.acquire(timeout=SECONDS)
        for _ in range(3 * IN_ALL):
            opened(stack, address, HALF)
        assert answers(address)
        page.send("still here")
        assert page.recv(timeout=SECONDS) == "still here"
        served.may_answer.set()
        assert all(connection.recv(20).startswith(b"HTTP/1.1 200") for connection in working)


def test_the_newest_page_makes_room_where_nobody_waits(limits):
    with ExitStack() as stack, site() as (_, address):
        pages = [
            stack.enter_context(connect(f"{address.replace('http', 'ws')}/socket", proxy=None))
            for _ in range(OF_SENDER)
        ]
        assert answers(address)
        with pytest.raises(ConnectionClosed):
            pages[-1].recv(timeout=SECONDS)
        pages[0].send("still here")
        assert pages[0].recv(timeout=SECONDS) == "still here"


def test_where_all_work_a_further_connection_is_closed(limits):
    with ExitStack() as stack, site() as (served, address):
        for _ in range(OF_SENDER):
            opened(stack, address, SLOW)
            assert served.asked.acquire(timeout=SECONDS)
        assert is_closed(opened(stack, address))
        served.may_answer.set()
        until(lambda: not is_closed(opened(stack, address, ASKED)), SECONDS)


def test_this_machines_addresses_are_one_sender(limits):
    with ExitStack() as stack, site() as (_, address):
        of_others = [opened(stack, address, HALF, source=f"127.0.0.{number}") for number in range(2, 2 + OF_SENDER)]
        assert answers(address)
        assert is_closed(of_others[0])


def test_a_trusted_proxy_has_more_than_one_senders_share(limits):
    with ExitStack() as stack, site(proxies=[ip_network("127.0.0.9/32")]) as (served, address):
        working = [opened(stack, address, SLOW, source="127.0.0.9") for _ in range(OF_SENDER + 2)]
        for _ in working:
            assert served.asked.acquire(timeout=SECONDS)
        for _ in range(3 * IN_ALL):
            opened(stack, address, HALF)
        assert answers(address)
        served.may_answer.set()
        assert all(connection.recv(20).startswith(b"HTTP/1.1 200") for connection in working)


def test_in_all_who_has_most_makes_room(limits):
    with ExitStack() as stack, site(proxies=[ip_network("127.0.0.0/29")]) as (_, address):
        most = [opened(stack, address, HALF, source="127.0.0.2") for _ in range(IN_ALL - 2)]
        few = [opened(stack, address, HALF, source="127.0.0.3") for _ in range(2)]
        others = opened(stack, address, ASKED, source="127.0.0.4")
        assert others.recv(20).startswith(b"HTTP/1.1 200")
        assert is_closed(most[0])
        few[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            few[0].recv(1)


@pytest.mark.parametrize(
    ("phase", "sent"),
    [(Phase.IDLE, b""), (Phase.HEADER, HALF), (Phase.BODY, HALF_BODY), (Phase.BODY, ENDLESS), (Phase.UNREAD, LARGE)],
    ids=["silent", "half", "body", "chunks", "unread"],
)
def test_what_the_server_waits_for_has_a_time(limits, monkeypatch, caplog, phase, sent):
    monkeypatch.setitem(http_server._SECONDS, phase, 0.3)
    with ExitStack() as stack, site() as (_, address):
        connection = opened(stack, address, sent)
        if phase is Phase.UNREAD:
            until(lambda: phase.value in caplog.text, SECONDS)
        else:
            dripping = bool(sent)
            while True:  # a byte now and then does not help
                connection.settimeout(0.05 if dripping else SECONDS)
                try:
                    assert is_closed(connection)
                    break
                except TimeoutError:
                    try:
                        connection.sendall(b"1\r\na\r\n" if sent == ENDLESS else b"a")
                    except OSError:
                        break
        assert answers(address)
        if phase is not Phase.IDLE:
            until(lambda: f"(1 that {phase.value} within 0 s)" in caplog.text, SECONDS)
    assert not [record for record in caplog.records if record.exc_info]


def test_a_half_handshake_has_a_time_and_makes_room(limits, monkeypatch, tmp_path):
    certificate = Authority(tmp_path).issue("watch")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.certificate_file, certificate.key_file)
    with ExitStack() as stack, site(tls=tls) as (_, address):
        half = [opened(stack, address, b"\x16\x03\x01\x02\x00\x01") for _ in range(3 * IN_ALL)]
        assert answers(address)
        assert is_closed(half[0])
        monkeypatch.setitem(http_server._SECONDS, Phase.HANDSHAKE, 0.1)
        assert is_closed(half[-1])
        assert answers(address)


@pytest.mark.parametrize(
    "header", [b"X: " + b"a" * 2 * HEADER_BYTES, b"X: a\r\n" * HEADER_BYTES], ids=["long", "lines"]
)
def test_a_huge_header_is_refused_and_said_once(limits, caplog, header):
    with ExitStack() as stack, site() as (_, address):
        for _ in range(20):
            refused = opened(stack, address)
            try:
                refused.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header)
                assert refused.recv(40).startswith(b"HTTP/1.1 400")
            except ConnectionError:
                pass  # it has answered, and closed, before all was sent
        assert answers(address)
    assert sum("Invalid HTTP request" in record.message for record in caplog.records) <= 1


def test_without_a_file_left_it_waits_and_says_so_in_one_line(limits, caplog):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack, site() as (_, address):
        assert answers(address)
        clients = [stack.enter_context(socket.socket()) for _ in range(10)]
        with all_files_open(soft, hard) as take_all:
            at = urlsplit(address)
            for client in clients:  # the first ones may get a file that another thread has closed meanwhile
                take_all()
                client.settimeout(SECONDS)
                client.connect((at.hostname, at.port))
                client.sendall(ASKED)
                with suppress(AssertionError):
                    until(lambda: "not accepted: Too many open files" in caplog.text, SECONDS / 10)
                    break
            assert "not accepted: Too many open files" in caplog.text
        assert client.recv(20).startswith(b"HTTP/1.1 200")
    assert not [record for record in caplog.records if record.exc_info]


@contextmanager
def all_files_open(soft: int, hard: int):
    """Leave this process no file until the end of the block; yield how to take those that were closed meanwhile."""
    taken: list[int] = []

    def take_all() -> None:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))

    resource.setrlimit(resource.RLIMIT_NOFILE, (sum(1 for _ in Path("/proc/self/fd").iterdir()) + 20, hard))
    try:
        yield take_all
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_end_waits_for_no_half_request(limits, caplog):
    with ExitStack() as stack:
        with site() as (_, address):
            for sent in (b"", HALF, HALF_BODY):
                opened(stack, address, sent)
            assert answers(address)
        assert "graceful shutdown exceeded" not in caplog.text
