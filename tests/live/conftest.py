"""One lab for most live tests: real RocketMQ, Kafka and consumers, started once, and looked at over the wire."""

import asyncio
import time
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from streaming.base.settings import load_settings
from streaming.collect.client import RemotingClient, RpcFailedError
from streaming.collect.rpc import Rpc
from streaming.lab.lab import Lab


@pytest.fixture(scope="session")
def settings_with(tmp_path_factory):
    """Settings of a lab: a root of its own, with the jars that are there already."""

    def settings_with(**lab):
        root = tmp_path_factory.mktemp("lab")
        jars = load_settings().runtime.jars
        jars.mkdir(parents=True, exist_ok=True)
        (root / "jars").symlink_to(jars)
        return load_settings(runtime={"root": root}, lab=lab)

    return settings_with


@pytest.fixture(scope="session")
def running():
    """A lab, up, its queues shared out, until the end of a with-block."""

    @contextmanager
    def running(settings):
        try:
            lab = Lab.up(settings)
            watch = Watch(lab.name_server)
            for group in settings.lab.groups.values():
                eventually(lambda group=group: watch.is_shared_out(group, settings.lab.brokers))
            yield lab
        finally:
            if (left := Lab.find(settings)) is not None:
                left.down()

    return running


@pytest.fixture(scope="session")
def lab_settings(settings_with):
    return settings_with()


@pytest.fixture(scope="session")
def lab(lab_settings, running):
    """The lab that the live tests share; whoever puts a fault on it cures it."""
    with running(lab_settings) as lab:
        yield lab


class Watch:
    """What the cluster says of itself, asked with the collector's client: not what the lab believes.

    A queue is (broker, number).
    """

    def __init__(self, name_server):
        self._name_server = name_server

    def members(self, group):
        """The client ids that the brokers have."""
        return set(self.connections(group))

    def connections(self, group):
        """The client id of every connection that the brokers have; they must agree."""
        views = [
            sorted(one["client_id"] for one in view["connections"]) for view in self._ask_brokers("connection", group)
        ]
        assert all(view == views[0] for view in views), "the brokers know different members"
        return views[0]

    def running(self, group, client_id, seconds=3.0):
        """What the client says of its queues."""
        rows = self.running_info(group, client_id, seconds)["queues"]
        return {_place(row): SimpleNamespace(**row) for row in rows if row["mq"]["topic"][0] != "%"}

    def running_info(self, group, client_id, seconds=3.0):
        """All that the client says of itself."""

        async def ask(rpc):
            masters = await rpc.masters(seconds)
            return await rpc.running_info(masters[0], group, client_id, seconds)

        return self._ask(ask)

    def owners(self, group, topic):
        """Who owns which queue, by the clients' own word; a queue that two claim fails."""
        owners = {}
        for client_id in sorted(self.members(group)):
            for place in self.running(group, client_id):
                assert place not in owners, f"{topic} {place} is claimed twice"
                owners[place] = client_id
        return owners

    def is_shared_out(self, group, brokers):
        """Whether every queue of so many brokers has an owner and every consumer its share: nothing moves any more."""
        owners = self.owners(group.group, group.topic)
        shares = Counter(owners.values()).values()
        whole = len(owners) == group.queues * brokers and len(shares) == group.consumers
        return whole and max(shares) - min(shares) <= 1

    def offsets(self, group, topic):
        """(the broker's offset, the committed one) of every queue."""
        return {
            _place(row): (row["broker_offset"], row["consumer_offset"])
            for stats in self._ask_brokers("consume_stats", group)
            for row in stats["queues"]
            if row["mq"]["topic"] == topic
        }

    def queues(self, topic):
        """How many read queues the name server gives out."""
        return len(self._ask(lambda rpc: rpc.route(topic, 3.0))["queues"])

    def brokers(self):
        """Their names, as the name server gives them out."""
        return {broker.name for broker in self._ask(lambda rpc: rpc.masters(3.0))}

    def _ask_brokers(self, question, group):
        async def ask(rpc):
            return [await getattr(rpc, question)(broker, group, 3.0) for broker in await rpc.masters(3.0)]

        return self._ask(ask)

    def _ask(self, question):
        async def ask():
            async with RemotingClient(load_settings().acl) as client:
                return await question(Rpc(client, (self._name_server,)))

        return asyncio.run(ask())


def _place(row):
    return row["mq"]["broker"], row["mq"]["queue_id"]


@pytest.fixture
def watch(lab):
    return Watch(lab.name_server)


def eventually(holds, seconds=40):
    """Wait until something holds: a cluster takes its time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = holds()
        except (AssertionError, RpcFailedError):  # seen in the middle of a change
            answer = False
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.5)


@pytest.fixture(name="eventually", scope="session")
def _eventually():
    return eventually
