"""One lab for all live tests: real RocketMQ, Kafka and consumers, started once, and looked at over the wire."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from streaming.collector.client import RemotingClient
from streaming.collector.rpc import Rpc
from streaming.lab.lab import Lab
from streaming.settings import load_settings


@pytest.fixture(scope="session")
def lab_settings(tmp_path_factory):
    """Settings of the lab: a root of its own, with the jars that are there already."""
    root = tmp_path_factory.mktemp("lab")
    jars = load_settings().runtime.jars
    jars.mkdir(parents=True, exist_ok=True)
    (root / "jars").symlink_to(jars)
    return load_settings(runtime={"root": root})


@pytest.fixture(scope="session")
def lab(lab_settings):
    """The lab, up, its queues shared out; whoever puts a fault on it cures it."""
    try:
        lab = Lab.up(lab_settings)
        watch = Watch(lab.name_server)
        for group in lab_settings.lab.groups.values():
            eventually(lambda group=group: watch.is_shared_out(group))
        yield lab
    finally:
        if (left := Lab.find(lab_settings)) is not None:
            left.down()


class Watch:
    """What the cluster says of itself, asked with the collector's client: not what the lab believes."""

    def __init__(self, name_server):
        self._name_server = name_server

    def members(self, group):
        """The client ids that the broker has."""
        return {one["client_id"] for one in self._ask("connection", group)["connections"]}

    def running(self, group, client_id, seconds=3.0):
        """The client's queues, by number."""
        rows = self._ask("running_info", group, client_id, seconds=seconds)["queues"]
        return {row["mq"]["queue_id"]: SimpleNamespace(**row) for row in rows if row["mq"]["topic"][0] != "%"}

    def owners(self, group, topic):
        """Who owns which queue, by the clients' own word; a queue that two claim fails."""
        owners = {}
        for client_id in sorted(self.members(group)):
            for queue_id in self.running(group, client_id):
                assert queue_id not in owners, f"{topic}:{queue_id} is claimed twice"
                owners[queue_id] = client_id
        return owners

    def is_shared_out(self, group):
        """Whether every queue has an owner and every consumer a queue."""
        owners = self.owners(group.group, group.topic)
        return len(owners) == group.queues and len(set(owners.values())) == group.consumers

    def offsets(self, group, topic):
        """(the broker's offset, the committed one) of every queue."""
        rows = self._ask("consume_stats", group)["queues"]
        return {
            row["mq"]["queue_id"]: (row["broker_offset"], row["consumer_offset"])
            for row in rows
            if row["mq"]["topic"] == topic
        }

    def queues(self, topic):
        """How many read queues the name server gives out."""
        return len(self._ask("route", topic)["queues"])

    def _ask(self, question, *arguments, seconds=3.0):
        async def ask():
            async with RemotingClient(load_settings().acl) as client:
                rpc = Rpc(client, (self._name_server,))
                about = [] if question == "route" else [(await rpc.masters(seconds))[0]]
                return await getattr(rpc, question)(*about, *arguments, seconds)

        return asyncio.run(ask())


@pytest.fixture(scope="session")
def watch(lab):
    return Watch(lab.name_server)


def eventually(holds, seconds=40):
    """Wait until something holds: a cluster takes its time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = holds()
        except AssertionError:  # seen in the middle of a change
            answer = False
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.5)


@pytest.fixture(name="eventually", scope="session")
def _eventually():
    return eventually
