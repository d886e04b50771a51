"""Mutated answers of webhooks, chat services, Alertmanagers and token servers: a delivery, or one sentence."""

import socket
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.base.errors import UserError
from streaming.log.kafka_properties import ClientCredentials
from streaming.serve.alerting.channels import open_channel
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.channels.webhook import SERVICES
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import mutants
from tests.support.alerting import NOW, config, message

SECRET = "t0ken-of-the-test"
BODIES = (
    b'{"errcode":0,"errmsg":"ok"}', b'{"errcode":310000,"errmsg":"keywords not in content"}', b"ok",
    b'{"code":19021,"msg":"sign match fail","data":{}}', b'{"StatusCode":0,"StatusMessage":"success","code":0}',
    b'{"access_token":"abc","expires_in":3600,"token_type":"Bearer"}', b'{"error":"invalid_client"}',
    b'{"status":"error","errorType":"bad_data","error":"start time must be before end time"}',
)  # fmt: skip
ANSWERS = [
    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
    % (status, len(body), body)
    for body in BODIES
    for status in (b"200 OK", b"400 Bad Request", b"503 Away")
] + [
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1b\r\n%s\r\n0\r\n\r\n" % BODIES[0],
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
]


class Server:
    """Answers each request with the same bytes, and closes the connection."""

    def __init__(self, listening):
        self._listening = listening
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/{SECRET}"
        self.answer = b""

    def run(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(1)
                connection.recv(65_536)
                connection.sendall(self.answer)


@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(listening)
        thread = threading.Thread(target=server.run)
        thread.start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(scope="module")
def channels(server):
    kinds = {name: {"kind": "webhook", "service": name} for name in SERVICES}
    kinds |= {"webhook": {"kind": "webhook"}, "alertmanager": {"kind": "alertmanager"}}
    given = {name: {**kind, "url": server.url, "timeout": "1s"} for name, kind in kinds.items()}
    declared = config(channels=given, routes=[{"channels": list(given)}])
    opened = {name: open_channel(one) for name, one in declared.channels.items()}
    yield opened
    for one in opened.values():
        one.close()


@given(name=st.sampled_from((*SERVICES, "webhook", "alertmanager")), answer=mutants(ANSWERS))
@fuzzed(short=80, long=10_000)
def test_a_mutated_answer_to_an_alert_is_a_delivery_or_a_sentence(server, channels, name, answer, tally, form):
    server.answer = answer
    reason = ""
    with tally.in_time():
        try:
            channels[name].send(message(), NOW)
        except ChannelError as error:
            reason = str(error)
    assert SECRET not in reason
    reason.encode()  # as a table keeps it
    tally.add("refused" if reason else "delivered")


@given(answer=mutants(ANSWERS))
@fuzzed(short=30, long=2_000)
def test_a_mutated_answer_of_a_token_server_is_a_token_or_a_sentence(server, answer, tally, form):
    server.answer = answer
    provider = ClientCredentials(server.url, "job", SECRET, "")
    try:
        with tally.in_time():
            assert provider.token()
    except UserError:
        tally.add("refused")
    else:
        tally.add("tokens")
