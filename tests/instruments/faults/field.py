"""Faults of public reports that the lab has no command for: an operator's commands, and consumers of another kind.

They are injected and cured by RocketMQ's own `mqadmin`, and by the lab's consumers with other orders.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from streaming.lab.cluster import LabCluster
from streaming.lab.servers import LOOPBACK
from streaming.lab.state import FaultRecord, LabFolder
from tests.instruments.faults.mqadmin import MqAdmin

CLUSTER = "lab"
"""The brokers' brokerClusterName."""
WITHOUT_SECONDS = 100
"""How long the topic is deleted: longer than PULL_REFUSED needs, and than `ended_queues.GONE_AFTER`."""
UNMANNED_SECONDS = 110
"""How long the group has no member before it is deleted: longer than NO_ACTIVE_CLIENTS_WITH_LAG needs."""
PAUSE_SECONDS = 30
"""Between two releases: two polls, and shorter than NO_ACTIVE_CLIENTS_WITH_LAG needs."""
LEFT_FOR = "first"
"""The key of the group whose topic is subscribed instead."""
_OBEY_SECONDS_MAX = 60


class FieldFaults:
    """Injects and cures the faults of `FIELD_FAULTS` in the lab that is up, as `Lab` does its own."""

    def __init__(self, settings, name_server):
        self._settings = settings
        self._home = LabFolder(settings.runtime.lab)
        self._admin = MqAdmin(self._home.folder / "mqadmin", name_server)

    def fault(self, kind, *, client):
        """Inject a fault of a group; ``client`` is its consumer, existing or new."""
        return self._do(kind, client, cure=False)

    def cure(self, kind, *, client):
        """Cure it."""
        return self._do(kind, client, cure=True)

    def _do(self, kind, client, *, cure):
        fault, group = FIELD_FAULTS[kind], self._settings.lab.groups[client.partition("-")[0]]
        begun = _now()
        (fault.cure if cure else fault.inject)(self, group, client)
        client_id = f"{LOOPBACK}@{client}" if fault.of_client else ""
        record = FaultRecord(
            begun, _now(), kind, cure, client if fault.of_client else "", client_id, group.group, None, ""
        )
        self._home.record(record)
        return record

    @contextmanager
    def cluster(self):
        """Lock the lab for a change of its processes."""
        with self._home.locked():
            yield LabCluster(self._home, self._home.load(), self._settings.runtime.jars, self._settings.lab.broker)

    def start(self, group, client, **orders):
        """Start a new consumer of a group with other orders than a healthy one has."""
        with self.cluster() as cluster:
            cluster.launch_consumer(replace(cluster.new_consumer(client, group), **orders))
            cluster.await_start(client)

    def end(self, client):
        """Let a consumer leave."""
        with self.cluster() as cluster:
            cluster.end(client, cleanly=True)
            cluster.forget(client)

    def create_group(self, group, *, consumes=True, broker=None):
        """Create or change a group, on one broker or on all; by default mqadmin forbids it to broadcast."""
        with self.cluster() as cluster:
            where = ("-c", CLUSTER) if broker is None else ("-b", cluster.brokers()[broker])
        self.change("updateSubGroup", *where, "-g", group, "-s", str(consumes).lower(), "-d", "true", "-m", "true")

    def change(self, command, *arguments):
        """Run a command of mqadmin."""
        self._admin.change(command, *arguments)

    def run(self, command, *arguments):
        """Run a command of mqadmin whose output says nothing of its success; return the output."""
        return self._admin.run(command, *arguments)

    def topic_of(self, key):
        """Return the topic of another group."""
        return self._settings.lab.groups[key].topic


@dataclass(frozen=True)
class FieldFault:
    """A fault and its cure: functions of `FieldFaults`, the group and the consumer's name."""

    inject: object
    cure: object
    of_client: bool = False
    """Whether one client is at fault."""


def disable_consumption(lab, group, _):
    lab.create_group(group.group, consumes=False)


def enable_consumption(lab, group, _):
    lab.create_group(group.group)


def close_topic(lab, group, _):
    lab.change("updateTopicPerm", "-c", CLUSTER, "-t", group.topic, "-p", "2")


def open_topic(lab, group, _):
    lab.change("updateTopicPerm", "-c", CLUSTER, "-t", group.topic, "-p", "6")


def start_where_one_broker_lacks_the_group(lab, group, client):
    """Create the group on one broker of two; none creates groups by itself any more."""
    with lab.cluster() as cluster:
        brokers = cluster.brokers()
    for address in brokers.values():
        lab.change("updateBrokerConfig", "-b", address, "-k", "autoCreateSubscriptionGroup", "-v", "false")
    lab.create_group(group.group, broker="broker-a")
    lab.start(group, client)


def create_group_everywhere(lab, group, _):
    lab.create_group(group.group)


def start_broadcasting(lab, group, client):
    lab.start(group, client, broadcasts=True)


def leave(lab, _, client):
    lab.end(client)


def start_with_a_listener_that_hangs(lab, group, client):
    """Start the first consumer that the group ever had; the first message of one of its queues does not return."""
    lab.create_group(group.group)
    lab.start(group, client, hang=True, queue_id=0, broker="broker-a")


def let_it_return(lab, _, client):
    with lab.cluster() as cluster:
        cluster.send_orders(replace(cluster.consumer(client), hang=False, queue_id=None, broker=""))


def delete_and_create_topic(lab, group, _):
    lab.change("deleteTopic", "-c", CLUSTER, "-t", group.topic)
    time.sleep(WITHOUT_SECONDS)
    queues = str(group.queues)
    lab.change("updateTopic", "-c", CLUSTER, "-t", group.topic, "-r", queues, "-w", queues)


def nothing(*_):
    """Cure what is over."""


def leave_and_delete_group(lab, group, client):
    lab.end(client)
    time.sleep(UNMANNED_SECONDS)
    lab.change("deleteSubGroup", "-c", CLUSTER, "-g", group.group)


def create_group_and_return(lab, group, client):
    lab.create_group(group.group)
    lab.start(group, client)


def subscribe_another_topic(lab, group, client):
    """Start the next release after a pause: what waits by then is known.

    While a group has members, a broker reports only the topics that they subscribe (getConsumeStats).
    """
    lab.end(client)
    time.sleep(PAUSE_SECONDS)
    lab.start(group, client, topic=lab.topic_of(LEFT_FOR))


def subscribe_again(lab, group, client):
    """Start the former release with the next one's topic, too: otherwise that one would be left now."""
    lab.end(client)
    lab.start(group, client, also=(lab.topic_of(LEFT_FOR),))


FIELD_FAULTS = {
    "consume-disabled": FieldFault(disable_consumption, enable_consumption),
    "write-only": FieldFault(close_topic, open_topic),
    "group-not-created": FieldFault(start_where_one_broker_lacks_the_group, create_group_everywhere, of_client=True),
    "broadcast": FieldFault(start_broadcasting, leave, of_client=True),
    "first-message": FieldFault(start_with_a_listener_that_hangs, let_it_return, of_client=True),
    "topic-recreated": FieldFault(delete_and_create_topic, nothing),
    "group-deleted": FieldFault(leave_and_delete_group, create_group_and_return),
    "topic-unsubscribed": FieldFault(subscribe_another_topic, subscribe_again),
}


def _now():
    return time.time_ns() // 1_000_000
