"""A consumer's relay, on real sockets: what passes, what is refused, and what a cut holds until it is healed."""

import json
import select
import socket
import struct
import time
from contextlib import ExitStack

import pytest

from streaming.lab.network import _ENDS_SECONDS, Relay

SECONDS = 90.0
"""How long what must come may take."""
QUIET_SECONDS = 0.2
"""How long nothing comes where nothing must."""
GREETING, AGREED = b"\x05\x01\x00", b"\x05\x00"
CONNECTED = b"\x05\x00\x00\x01" + bytes(6)


class Net:
    """A relay, a server behind it, and clients in front of it."""

    def __init__(self, stack):
        self._stack = stack
        self.relay = stack.enter_context(Relay())
        self._server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._server.settimeout(SECONDS)
        self.port = self._server.getsockname()[1]

    def dial(self):
        """A connection to the relay, where nothing was said yet."""
        return self._stack.enter_context(socket.create_connection(("127.0.0.1", self.relay.port), SECONDS))

    def accept(self):
        """The server's end of the next connection."""
        end, _ = self._server.accept()
        end.settimeout(SECONDS)
        return self._stack.enter_context(end)

    def connect(self):
        """Both ends of a new connection."""
        client = self.dial()
        client.sendall(GREETING)
        assert take(client, 2) == AGREED
        client.sendall(request("127.0.0.1", self.port))
        assert take(client, 10) == CONNECTED
        return client, self.accept()

    def hangs_up(self):
        """The server is there no more."""
        self._server.close()

    def asked(self):
        """Return whether somebody wants to connect to the server."""
        return bool(select.select([self._server], [], [], QUIET_SECONDS)[0])


@pytest.fixture
def net():
    with ExitStack() as stack:
        yield Net(stack)


def request(host, port, command=1):
    """SOCKS5's request with a domain, as Netty sends it."""
    return bytes([5, command, 0, 3, len(host)]) + host.encode() + port.to_bytes(2)


def take(end, count):
    """Exactly so many bytes."""
    data = b""
    while len(data) < count:
        more = end.recv(count - len(data))
        assert more, f"ended after {data!r}"
        data += more
    return data


def is_quiet(*ends):
    """Neither bytes nor an end of the stream arrive."""
    return not select.select(ends, [], [], QUIET_SECONDS)[0]


def reset(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def test_bytes_pass_both_ways_whole_and_in_order(net):
    client, server = net.connect()
    much = bytes(range(256)) * 4_000
    client.sendall(b"ping")
    assert take(server, 4) == b"ping"
    server.sendall(much[:300_000])  # fits into the buffers of three sockets
    assert take(client, 300_000) == much[:300_000]


def test_a_server_may_be_named_by_its_address_and_the_relay_confirms_it(net):
    connected = []
    net.relay.connected = connected.append
    client = net.dial()
    client.sendall(GREETING)
    take(client, 2)
    client.sendall(b"\x05\x01\x00\x01" + bytes([127, 0, 0, 1]) + net.port.to_bytes(2))
    assert take(client, 10) == CONNECTED
    net.accept().sendall(b"x")
    assert take(client, 1) == b"x"
    assert connected == [f"127.0.0.1:{net.port}"]


def test_the_end_of_one_stream_is_passed_on_and_the_other_goes_on(net):
    client, server = net.connect()
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert take(server, 4) == b"last"
    assert server.recv(1) == b""
    server.sendall(b"answer")
    assert take(client, 6) == b"answer"
    server.close()
    assert client.recv(1) == b""


@pytest.mark.parametrize("ends", [0, 1])
def test_a_reset_on_one_side_ends_the_other(net, ends):
    both = net.connect()
    reset(both[ends])
    assert both[1 - ends].recv(1) == b""


def test_a_server_that_refuses_is_told_at_once(net):
    net.hangs_up()
    client = net.dial()
    client.sendall(GREETING)
    take(client, 2)
    client.sendall(request("127.0.0.1", net.port))
    assert take(client, 10)[:2] == b"\x05\x05"
    assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request("192.0.2.1", 80), 2),  # another machine
        (request("example.org", 80), 2),
        (request("127.0.0.1", 80, command=2), 7),  # BIND
        (b"\x05\x01\x00\x04", 8),  # IPv6
    ],
)
def test_the_relay_refuses_what_it_does_not_do_and_serves_others_on(net, asked, code):
    client = net.dial()
    client.sendall(GREETING)
    take(client, 2)
    client.sendall(asked)
    assert take(client, 10)[1] == code
    assert client.recv(1) == b""
    net.connect()


@pytest.mark.parametrize("greeting", [b"\x05\x01\x02", b"\x04\x01\x00"])
def test_authentication_and_other_versions_are_refused(net, greeting):
    client = net.dial()
    client.sendall(greeting)
    assert take(client, 2) == b"\x05\xff"
    assert client.recv(1) == b""


def test_a_cut_holds_every_byte_and_passes_it_in_order_later(net):
    client, server = net.connect()
    net.relay.cut()
    assert net.relay.is_cut
    for number in range(3):
        client.sendall(b"to server %d;" % number)
        server.sendall(b"to client %d;" % number)
        assert is_quiet(client, server)
    net.relay.heal()
    client.sendall(b"later")
    assert take(server, 41) == b"to server 0;to server 1;to server 2;later"
    assert take(client, 36) == b"to client 0;to client 1;to client 2;"


def test_end_of_stream_and_reset_wait_for_the_healing_behind_sent_bytes(net):
    (gone, left), (broken, alone), (deaf, silent) = net.connect(), net.connect(), net.connect()
    net.relay.cut()
    gone.sendall(b"last")
    gone.close()
    reset(broken)
    silent.close()
    assert is_quiet(left, alone, deaf)
    healed = time.monotonic()
    net.relay.heal()
    assert take(left, 4) == b"last"
    assert (left.recv(1), alone.recv(1), deaf.recv(1)) == (b"", b"", b"")
    # A broker gets to work on what waited before its channel is closed.
    assert time.monotonic() - healed > _ENDS_SECONDS - 0.1


def test_connections_hang_while_cut_and_abandoned_ones_reach_no_server(net):
    net.relay.cut()
    patient, given_up = net.dial(), net.dial()
    for client in (patient, given_up):
        client.sendall(GREETING)
    assert is_quiet(patient, given_up)
    given_up.close()
    net.relay.heal()
    assert take(patient, 2) == AGREED
    patient.sendall(request("127.0.0.1", net.port))
    assert take(patient, 10) == CONNECTED
    net.accept()
    assert not net.asked()


def test_a_cut_between_the_request_and_the_answer_holds_the_answer(net):
    client = net.dial()
    client.sendall(GREETING)
    take(client, 2)
    net.relay.cut()
    client.sendall(request("127.0.0.1", net.port))
    assert is_quiet(client)
    assert not net.asked()
    net.relay.heal()
    assert take(client, 10) == CONNECTED


def test_one_consumers_cut_is_no_others(net):
    with Relay() as other:
        other.cut()
        client, server = net.connect()
        client.sendall(b"x")
        assert take(server, 1) == b"x"


def test_rocketmqs_setting_leads_this_machines_addresses_to_the_relay(net):
    assert json.loads(net.relay.socks_proxy_config) == {"127.0.0.0/8": {"addr": f"127.0.0.1:{net.relay.port}"}}


def test_at_its_end_every_connection_is_closed_cut_or_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with Relay() as relay:
            client = socket.create_connection(("127.0.0.1", relay.port), SECONDS)
            client.sendall(GREETING)
            take(client, 2)
            client.sendall(request("localhost", server.getsockname()[1]))
            take(client, 10)
            accepted, _ = server.accept()
            relay.cut()
        with client, accepted:
            assert (client.recv(1), accepted.recv(1)) == (b"", b"")
