"""The lock table rebuilt from the hook's events equals the broker's own, entry by entry.

The short form judges a recording, the long form records anew. To replace the recording after a change of the hook: `tar
-cJf tests/live/lock_table.tar.xz -C FOLDER spool tables.jsonl` of the folder `recorded*` that the long form leaves.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from rebalance_model.observe.events import UnlockBatchMq
from streaming.base.java import java_home
from streaming.base.sections.lab import LabGroup
from streaming.base.settings import load_settings
from streaming.lab import servers
from streaming.lab.cluster import LabCluster
from streaming.lab.state import LabFolder, LabState
from tests.live.agreement import Known
from tests.live.histories import History
from tests.support import hooked
from tests.support.recordings import unpacked

RECORDING = Path(__file__).with_name("lock_table.tar.xz")
ORDERS = LabGroup(group="orders-group", topic="Orders", ordered=True, queues=4, consumers=2)
RAW = "raw-group"
STAMP_MS_USUAL = 50


class Broker:
    """The program with broker and name server; requests its lock table on demand, and twice a second."""

    def __init__(self, process):
        self._process = process
        self._lock = threading.Lock()
        self.tables = []

    def say(self):
        """The next line of JSON; RocketMQ's own lines are passed over."""
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        raise AssertionError("the broker ended")

    def look(self):
        with self._lock:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            self.tables.append(self.say())
            return self.tables[-1]["locks"]

    def watch(self, done):
        while not done.wait(0.5):
            self.look()


@contextmanager
def running(home, spool):
    """The broker of `tests.live.broker_in_process`, a cluster to start consumers in, and the broker's address."""
    port, name_server = servers.free_port(beside=servers.BROKER_PORTS_BESIDE), servers.free_port()
    command = [sys.executable, "-m", "tests.live.broker_in_process", home, spool, port, name_server]
    with (home / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            list(map(str, command)),
            env=os.environ | {"JAVA_HOME": str(java_home()), "ROCKETMQ_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        broker = Broker(process)
        state = LabState(name_server_port=name_server, brokers={hooked.NAME: port})
        cluster = LabCluster(LabFolder(home / "lab"), state, load_settings().runtime.jars, {})
        try:
            assert broker.say() == {"ready": True}
            yield SimpleNamespace(broker=broker, cluster=cluster, address=(servers.LOOPBACK, port))
        finally:
            for name in list(state.members):
                cluster.end(name, cleanly=False)
            process.stdin.close()
            process.wait(timeout=90)
            process.stdout.close()


def _consumers(cluster, *names):
    for name in names:
        cluster.launch_consumer(cluster.new_consumer(name, ORDERS))
    for name in names:
        cluster.await_start(name)


def _locked(client, client_id, *queues, group=RAW):
    answer = client.ask(hooked.LOCK, body=hooked.locks(client_id, group, *queues))
    return {one["queueId"] for one in json.loads(answer.body)["lockOKMQSet"]}


def _held(broker):
    """(number, holder, stamp) of each lock of the topic's queues; the queue of the retry topic has one, too."""
    locks = broker.look().get(ORDERS.group, {}).items()
    return [(int(name.rpartition(":")[2]), *lock) for name, lock in locks if name.startswith(f"{ORDERS.topic}@")]


def _shares(broker):
    return Counter(holder for _, holder, _ in _held(broker))


def _renewed(broker):
    """Queues that nobody else gets for seconds: here locks live 10 s, and their holders renew them every 20 s."""
    return [number for number, _, stamp in _held(broker) if time.time() * 1000 - stamp < 5_000]


def _is_refused(broker, client):
    """Return whether there are renewed locks, and a client gets none; after a stall they may have expired."""
    renewed = _renewed(broker)
    return bool(renewed) and _locked(client, "y", *renewed, group=ORDERS.group) == set()


def _churn(world, eventually):
    """Consumers and raw clients lock, renew, unlock, refuse each other, die and expire."""
    _consumers(world.cluster, "orders-1", "orders-2")
    first, second = "127.0.0.1@orders-1", "127.0.0.1@orders-2"
    eventually(lambda: _shares(world.broker) == {first: 2, second: 2})
    with hooked.Client(world.address) as holder, hooked.Client(world.address) as other:
        eventually(lambda: _is_refused(world.broker, other))
        assert _locked(holder, "x", 0, 1, 2) == {0, 1, 2}
        assert _locked(other, "y", 1, 2, 3) == {3}
        other.send_oneway(hooked.UNLOCK, body=hooked.locks("y", RAW, 0, 3))  # 0 is not its own: stays
        holder.send_oneway(hooked.UNLOCK, body=hooked.locks("x", RAW, 1))
        eventually(lambda: len(world.broker.look()[RAW]) == 2)
        assert _locked(other, "y", 1) == {1}
        world.cluster.end("orders-2", cleanly=False)
        killed = time.monotonic()
        while time.monotonic() - killed < 12:  # x dies: what it holds expires; y renews
            time.sleep(2)
            assert _locked(other, "y", 1) == {1}
        assert _locked(other, "y", 0, 2) == {0, 2}
    eventually(lambda: _shares(world.broker) == {first: 4})
    world.cluster.end("orders-1", cleanly=True)  # it unlocks
    eventually(lambda: not world.broker.look()[ORDERS.group])


def _record(home, eventually):
    """Leave the hook's spool and the broker's tables meanwhile in a folder."""
    spool, done = home / "spool", threading.Event()
    with running(home, spool) as world:
        with hooked.Client(world.address) as client:
            client.make(ORDERS.topic, ORDERS.group, RAW)
        watching = threading.Thread(target=world.broker.watch, args=(done,))
        watching.start()
        try:
            _churn(world, eventually)
        finally:
            done.set()
            watching.join()
        hooked.await_tick(spool)
    (home / "tables.jsonl").write_text("".join(f"{json.dumps(table)}\n" for table in world.broker.tables))


@pytest.fixture(
    scope="module",
    params=["recorded", pytest.param("live", marks=[pytest.mark.live, pytest.mark.prove])],
)
def recorded(request, tmp_path_factory, eventually):
    """Return the hook's events, and the broker's tables meanwhile."""
    home = tmp_path_factory.mktemp("recorded")
    if request.param == "recorded":
        unpacked(RECORDING, home)
    else:
        _record(home, eventually)
    tables = [json.loads(line) for line in (home / "tables.jsonl").read_text().splitlines()]
    return hooked.spooled(home / "spool"), tables


def _in_flight(events):
    """Return how long a call to the broker at a time may have taken to reach its hook."""
    return partial(Known(SimpleNamespace(hook=events, poll=(), faults=())).in_flight, hooked.NAME)


def _compared(tables, history, in_flight):
    """(group, queue, the broker's entry, those that the fold held meanwhile) of every entry of every table."""
    for table in tables:
        until = table["time"] + in_flight(table["time"])
        for group, series in history.series.items():
            for key in history.keys(group, "lock"):
                entries = series[key].during(table["asked"], until)
                entry = table["locks"].get(group, {}).get(str(key[2]))
                if entry is not None or entries != [None]:
                    yield group, key[2], entry, entries
        for group, locks in table["locks"].items():
            for name in locks.keys() - {str(key[2]) for key in history.keys(group, "lock")}:
                yield group, name, locks[name], [None]


MONOTONIC_MS = 2
"""The hook stamps by a monotonic clock, whose milliseconds begin within those of the broker's own clock."""


def _agrees(entry, entries, in_flight):
    if entry is None:
        return None in entries
    client_id, stamp = entry
    late = (one[1] - stamp for one in entries if one and one[0] == client_id)
    return any(-MONOTONIC_MS <= ms <= in_flight(stamp) for ms in late)


def test_the_rebuilt_lock_table_is_the_brokers_own(recorded):
    events, tables = recorded
    in_flight = _in_flight(events)
    compared = list(_compared(tables, History(events), in_flight))
    assert len(tables) >= 30
    assert len(compared) >= 150
    assert [one for one in compared if not _agrees(*one[2:], in_flight)] == []
    late = {  # each stamp once, however many tables show it
        (group, queue, *entry): min(
            one[1] - entry[1] for one in held if one and one[0] == entry[0] and one[1] >= entry[1] - MONOTONIC_MS
        )
        for group, queue, entry, held in compared
        if entry is not None
    }.values()
    assert statistics.median(late) <= STAMP_MS_USUAL


def test_a_fold_that_overlooks_unlocks_is_found_out(recorded):
    events, tables = recorded
    history = History(event for event in events if not isinstance(event, UnlockBatchMq))
    in_flight = _in_flight(events)
    assert not all(_agrees(*one[2:], in_flight) for one in _compared(tables, history, in_flight))
