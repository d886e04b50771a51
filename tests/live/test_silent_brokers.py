"""A real broker that is frozen, one behind a black hole and one behind a bad network, beside a healthy one.

Loopback loses nothing, so two of them are registered at the real name server with the address of a relay: the black
hole accepts connections and forwards nothing; the bad network leads to the healthy broker, holds each piece of 10 %
for a second, as TCP does while it sends a lost segment again, and breaks the connection at one of 200.
"""

import asyncio
import random
import socket
import time
from collections import defaultdict
from contextlib import contextmanager

import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import (
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    TopicRoute,
)
from rebalance_model.observe.events.decoding import decode
from streaming.collect.remoting import VERSION, RemotingCommand, encode
from streaming.lab.state import LabFolder
from tests.live.commands import Command
from tests.support.beside import silent_servers, talking_servers
from tests.support.folding import folded

pytestmark = [pytest.mark.live, pytest.mark.prove]
GROUP, INTERVAL_MS = "orders-group", 10_000
ROUNDS_BEFORE, ROUNDS_AFTER = 2, 6
UNREACHABLE_MS_MAX = 2 * INTERVAL_MS + 9_000
"""Two requests in vain: the round that begins after the freeze has its whole time, the next one a probe."""
_REGISTER_BROKER = 103


@pytest.fixture(scope="module")
def lab_settings(settings_with):
    return settings_with(brokers=2, kafka=False, groups={"orders": {"queues": 4}})


@pytest.fixture(scope="module")
def lab(lab_settings, running):
    with running(lab_settings) as lab:
        yield lab


@contextmanager
def registered(name_server, name, address):
    """Register a broker until the end of the block, as anybody may; the name server forgets it with the connection."""
    host, _, port = name_server.rpartition(":")
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": "lab", "haServerAddr": address, "brokerId": "0"}
    request = RemotingCommand(
        code=_REGISTER_BROKER, opaque=1, language="JAVA", version=VERSION,
        fields=fields | {"compressed": "false", "bodyCrc32": "0"},
    )  # fmt: skip
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(encode(request))
        assert b'"code":0' in connection.recv(4_096)
        yield


def bad_network(to):
    """Return what relays a connection to an address, with losses."""
    chance = random.Random(7)

    async def pass_on(reader, writer):
        while piece := await reader.read(65_536):
            if chance.random() < 0.005:
                break
            if chance.random() < 0.1:
                await asyncio.sleep(1.0)
            writer.write(piece)
            await writer.drain()

    async def relay(reader, writer):
        theirs, ours = await asyncio.open_connection(*to)
        ways = {asyncio.create_task(pass_on(reader, ours)), asyncio.create_task(pass_on(theirs, writer))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            ours.close()

    return relay


def test_silent_brokers_cost_themselves_and_are_reported(lab, lab_settings, tmp_path, record_property):
    recording = tmp_path / "recording.jsonl"
    given = {"COLLECTOR__NAME_SERVERS": lab.name_server, "RUNTIME__ROOT": tmp_path, "HEALTH__POLL": 0}
    given |= {"COLLECTOR__INTERVAL_MS": INTERVAL_MS}
    healthy = ("127.0.0.1", LabFolder(lab_settings.runtime.lab).load().brokers["broker-a"])
    with (
        silent_servers(1) as [hole],
        talking_servers(1, bad_network(healthy)) as [lossy],
        registered(lab.name_server, "hole", hole),
        registered(lab.name_server, "lossy", lossy),
        Command(tmp_path, given, "collect", "poll", "--to", recording) as collector,
    ):
        collector.start()
        time.sleep(ROUNDS_BEFORE * INTERVAL_MS / 1_000)
        lab.fault("broker-freeze", client="broker-b")
        frozen = time.time_ns() // 1_000_000
        try:
            time.sleep(ROUNDS_AFTER * INTERVAL_MS / 1_000)
        finally:
            lab.cure("broker-freeze")
        assert collector.interrupt() == 0
        assert "Traceback" not in collector.said()
    events = [decode(line, key=None, stamp=2**62, keyed=False) for line in recording.read_bytes().splitlines()]
    began = min(event.asked for event in events if getattr(event, "asked", 0))

    assert stale_rounds(events, began) == {}
    opened = {
        effect.subject: effect.time
        for effect in folded(events)
        if isinstance(effect, IncidentTransition)
        and (effect.code, effect.transition) == ("BROKER_UNREACHABLE", "OPENED")
    }
    assert opened.keys() == {"broker-b", "hole"}
    after = {"broker-b": opened["broker-b"] - frozen, "hole": opened["hole"] - began}
    assert max(after.values()) <= UNREACHABLE_MS_MAX, after
    lost = [one.error is not None for one in events if isinstance(one, BrokerStatus) and one.broker == "lossy"]
    seconds = {broker: round(ms / 1_000, 1) for broker, ms in sorted(after.items())}
    record_property("BROKER_UNREACHABLE after, s", ", ".join(f"{name} {value}" for name, value in seconds.items()))
    record_property("requests to the lossy one without an answer", f"{sum(lost)} of {len(lost)}")


def stale_rounds(events, began):
    """Return what of the healthy broker's answers about the group each round lacks."""
    answers_in, clients = defaultdict(set), set()
    for event in events:
        if getattr(event, "group", "") != GROUP or event.error is not None:
            continue
        number = round((event.time - began) / INTERVAL_MS)
        if isinstance(event, ConsumerConnection | ConsumeStats) and event.broker == "broker-a":
            answers_in[number].add(type(event).__name__)
        elif isinstance(event, TopicRoute):
            answers_in[number].add("TopicRoute")
        elif isinstance(event, ConsumerRunningInfo):
            answers_in[number].add(event.client_id)
            clients.add(event.client_id)
    needed = {"ConsumerConnection", "ConsumeStats", "TopicRoute", *clients}
    rounds = range(ROUNDS_BEFORE + ROUNDS_AFTER - 1)
    return {number: needed - answers_in[number] for number in rounds if needed - answers_in[number]}
