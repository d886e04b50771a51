"""One lab for most live tests: real RocketMQ, Kafka and consumers, all secured, started once for all of them.

Each test has groups, topics and folders of its own, and cures the faults that it injects.
"""

import asyncio
from collections import Counter
from contextlib import contextmanager

import pytest

from streaming.base.settings import load_settings
from streaming.collect.client import RemotingClient, RpcFailedError
from streaming.collect.rpc import Rpc
from streaming.collect.security import Security, security_of
from streaming.lab.lab import Lab
from streaming.lab.processes import end
from streaming.lab.state import LabFolder
from tests.live.lab_kafka import PLAIN_PASSWORD, LabKafka, with_every_way
from tests.live.token_server import TokenServer
from tests.support.waiting import until

UNSECURED = Security()
ANSWER_SECONDS = 15.0
"""A busy machine takes its time; a client that does not answer makes its broker wait for 10 s."""
PATIENCE_SECONDS = 100
"""Nothing but a fault takes so long, and it is less than the 120 s after which a broker drops a silent member."""


@pytest.fixture(scope="session")
def settings_with(tmp_path_factory):
    """Return the settings of a lab with a root of its own, and the jars that already exist."""

    def settings_with(**lab):
        root = tmp_path_factory.mktemp("lab")
        jars = load_settings().runtime.jars
        jars.mkdir(parents=True, exist_ok=True)
        (root / "jars").symlink_to(jars)
        return load_settings(runtime={"root": root}, lab=lab)

    return settings_with


@pytest.fixture(scope="session")
def running():
    """Yield a running lab whose queues are assigned, until the end of a with-block."""

    @contextmanager
    def running(settings):
        try:
            lab = Lab.up(settings)
            watch = Watch(lab.name_server, security_of(settings_of(lab).rocketmq))
            for group in settings.lab.groups.values():
                eventually(lambda group=group: watch.is_shared_out(group, settings.lab.brokers))
            yield lab
        finally:
            if (left := Lab.find(settings)) is not None:
                left.down()

    return running


def pytest_collection_modifyitems(items):
    """Leave the tests of Kafka alone to the end, after the one that begins with the whole lab."""
    items.sort(
        key=lambda item: ("kafka_alone" in getattr(item, "fixturenames", ()), item.path.stem == "test_whole_path")
    )


@pytest.fixture(scope="session")
def lab_settings(settings_with):
    """Those of the lab that the live tests share: one group is in a namespace, `shop`, as its members register it."""
    orders = {"group": "shop%orders-group", "topic": "shop%Orders", "queues": 4, "consumers": 3}
    audit = {"queues": 4, "consumers": 1}
    return settings_with(secure=True, messages_per_second=2, groups={"orders": orders, "audit": audit})


@pytest.fixture(scope="session")
def token_server(until_group_ends):
    """A server that gives Kafka's clients tokens."""
    return until_group_ends.enter_context(TokenServer("service", PLAIN_PASSWORD))


@pytest.fixture(scope="session")
def lab(lab_settings, running, token_server, until_group_ends):
    """The lab that the live tests share; a test that injects a fault must cure it."""
    with_every_way(until_group_ends, token_server)
    return until_group_ends.enter_context(running(lab_settings))


@pytest.fixture(scope="session")
def kafka(lab, lab_settings, token_server):
    """The Kafka of that lab."""
    return LabKafka(lab, lab_settings, settings_of(lab), token_server)


@pytest.fixture(scope="session")
def kafka_alone(kafka, lab_settings):
    """Return the Kafka for tests that need no other server of the lab: the others, a sixth of a core, are ended."""
    for name, member in LabFolder(lab_settings.runtime.lab).load().members.items():
        if name != "kafka":
            end(member.process)
    return kafka


def settings_of(lab):
    """Return the settings that `lab env` prints."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in lab.environment().items():
            environment.setenv(name, value)
        return load_settings()


class Watch:
    """The state of the cluster by its own answers to the collector's client, not by the lab's records.

    A queue is (broker, number).
    """

    def __init__(self, name_server, security=UNSECURED):
        self._name_server = name_server
        self._security = security

    def members(self, group):
        """Return the client ids that the brokers list."""
        return set(self.connections(group))

    def connections(self, group):
        """Return the client id of every connection that the brokers list; all brokers must agree."""
        views = [
            sorted(one.client_id for one in view["connections"]) for view in self._ask_brokers("connection", group)
        ]
        assert all(view == views[0] for view in views), "the brokers know different members"
        return views[0]

    def running(self, group, client_id, seconds=ANSWER_SECONDS):
        """Return the queues in the client's answer."""
        rows = self.running_info(group, client_id, seconds)["queues"]
        return {_place(row): row for row in rows if not row.mq.is_retry}

    def running_info(self, group, client_id, seconds=ANSWER_SECONDS):
        """Return the client's whole answer about itself."""

        async def ask(rpc):
            brokers = (await rpc.brokers(seconds)).brokers
            return await rpc.running_info(brokers[0], group, client_id, seconds)

        return self._ask(ask)

    def owners(self, group, topic):
        """Return the owner of each queue by the clients' own answers; fail if two claim one."""
        owners = {}
        for client_id in sorted(self.members(group)):
            for place in self.running(group, client_id):
                assert place not in owners, f"{topic} {place} is claimed twice"
                owners[place] = client_id
        return owners

    def is_shared_out(self, group, brokers):
        """Return whether every queue of this number of brokers has an owner, and every consumer its share."""
        owners = self.owners(group.group, group.topic)
        shares = Counter(owners.values()).values()
        whole = len(owners) == group.queues * brokers and len(shares) == group.consumers
        return whole and max(shares) - min(shares) <= 1

    def offsets(self, group, topic):
        """Return the broker's offset and the committed one of every queue."""
        return {
            _place(row): (row.broker_offset, row.consumer_offset)
            for stats in self._ask_brokers("consume_stats", group)
            for row in stats["queues"]
            if row.mq.topic == topic
        }

    def queues(self, topic):
        """Return the number of read queues by the name server's route."""
        return len(self._ask(lambda rpc: rpc.route(topic, ANSWER_SECONDS))["queues"])

    def brokers(self):
        """Return the brokers' names by the name server's answer."""
        return {broker.name for broker in self._ask(lambda rpc: rpc.brokers(ANSWER_SECONDS)).brokers}

    def masters(self):
        """Return the id of each broker's master, or of the slave that acts as master, by the name server's answer."""
        found = self._ask(lambda rpc: rpc.brokers(ANSWER_SECONDS)).brokers
        return {broker.name: broker.broker_id for broker in found if broker.is_master}

    def _ask_brokers(self, question, group):
        async def ask(rpc):
            brokers = (await rpc.brokers(ANSWER_SECONDS)).brokers
            return [await getattr(rpc, question)(broker, group, ANSWER_SECONDS) for broker in brokers]

        return self._ask(ask)

    def _ask(self, question):
        async def ask():
            async with RemotingClient(self._security) as client:
                return await question(Rpc(client, (self._name_server,)))

        return asyncio.run(ask())


def _place(row):
    return row.mq.broker, row.mq.queue_id


@pytest.fixture
def watch(lab):
    return Watch(lab.name_server, security_of(settings_of(lab).rocketmq))


def eventually(holds, seconds=PATIENCE_SECONDS):
    """Wait until a condition holds and return its value; a cluster needs time."""

    def looked():
        try:
            return holds()
        except (AssertionError, RpcFailedError):  # seen in the middle of a change
            return False

    return until(looked, seconds)


@pytest.fixture(name="eventually", scope="session")
def _eventually():
    return eventually
