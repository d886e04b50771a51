"""Differences between RocketMQ releases, as one value that the model reads instead of comparing versions.

And what clients of other languages never report in an answer to GET_CONSUMER_RUNNING_INFO, though the field is there.

The default of every field is 5.x, compared with the classes of 5.4.0; `RELEASE_4_9` is 4.9.8, read from its source.
"""

from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

_V4_0_0_SNAPSHOT = 212
"""From here on each release has two numbers, its snapshot's and its own, and each minor version ten releases."""
_HIGHER_VERSION = 612


def release_of(number: int) -> str | None:
    """Return the release of a version number, such as ``5.3.1`` for 475 (MQVersion.getVersionDesc); None if unknown.

    Examples:
        >>> [release_of(number) for number in (407, 492, 493)]
        ['4.9.7', '5.4.0-SNAPSHOT', '5.4.0']
    """
    if number <= 0:
        return None
    if number >= _HIGHER_VERSION:
        return "6.0 or later"
    if number < _V4_0_0_SNAPSHOT:
        return "3.x"
    releases, is_final = divmod(number - _V4_0_0_SNAPSHOT, 2)
    digits = ".".join(str(400 + releases))
    return digits if is_final else f"{digits}-SNAPSHOT"


class Dialect(msgspec.Struct, frozen=True):
    """The behaviour of a release where releases differ."""

    client_events: bool = True
    """The broker informs its listeners of each client: CLIENT_REGISTER and CLIENT_UNREGISTER (since 5.0)."""
    broadcasting_notified: bool = False
    """Members of a BROADCASTING group, too, are notified when the members change (until 5.3.0)."""
    topic_group_table: bool = True
    """The broker keeps an index of the groups of a topic, which may hold more than they subscribe (since 5.3.3)."""
    heartbeat_v2: bool = True
    """A heartbeat may carry a fingerprint instead of the subscriptions (since 5.1.3)."""
    unknown_group_registers: bool = False
    """A heartbeat of a group that has no configuration, and may not get one, registers nevertheless (until 5.1.0)."""
    group_names_checked: bool = True
    """A group with a blank, too long or otherwise invalid name is not created by its first heartbeat (since 5.1)."""
    offset_owner_checked: bool = True
    """A commit for an unknown group or topic is refused (since 5.3)."""
    zero_can_be_declined: bool = True
    """A client may decline offset 0 for a queue without a stored offset (since 5.0)."""
    server_side_reset: bool = True
    """The broker keeps offsets that an operator set, until the client has taken them (since 5.1)."""
    paced_rebalance: bool = True
    """The rebalance thread waits 1 s between two runs and runs again after 1 s if one did not end balanced (since 5.2);
    before, every wakeup runs it at once, and otherwise it runs every 20 s."""
    lock_failure_retried: bool = True
    """A refused queue lock wakes the rebalance thread 500 ms later (since 5.0)."""
    pull_dispatch_delay: int = 500
    """Milliseconds until a new queue is pulled for the first time (0 until 4.9)."""
    missing_topic_announced: bool = True
    """A subscribed topic without a route bumps the subscription's version and heartbeats in each cycle (since 5.0)."""
    broadcasting_locked: bool = False
    """An ordered BROADCASTING consumer locks its queues, too, and so takes the locks from the others (until 5.3.1)."""
    dropped_queues_renewed: bool = False
    """The periodic lock, and the unlock at shutdown, include queues that are dropped (until 4.9)."""
    forced_unlock: bool = True
    """A dropped ordered queue is kept while its listener runs and removed by force 20 s after the last lock (since
    5.2); before, it is removed as soon as no listener runs, but unlocked 20 s later if messages are cached."""
    offset_frozen: bool = True
    """An illegal offset is corrected at once, frozen meanwhile (since 5.2); before, 10 s later, without a wakeup."""
    broker_error_is_no_offset: bool = False
    """Any refusal of an offset query counts as "no offset yet" (until 4.9)."""
    send_back_checked: bool = True
    """A failed message is sent back only if it is still cached: not if the clean-up has sent it already (since 5.0)."""
    local_offset_max: int = 2**31 - 1
    """The largest offset that a BROADCASTING consumer can read back from its own file: the fastjson2 of 5.4.0 reads it
    as an int; beyond that the consumer loses its position, or does not start. Before, 2**63 - 1."""


RELEASE_5 = Dialect()
RELEASE_4_9 = Dialect(
    client_events=False,
    broadcasting_notified=True,
    topic_group_table=False,
    heartbeat_v2=False,
    unknown_group_registers=True,
    group_names_checked=False,
    offset_owner_checked=False,
    zero_can_be_declined=False,
    server_side_reset=False,
    paced_rebalance=False,
    lock_failure_retried=False,
    pull_dispatch_delay=0,
    missing_topic_announced=False,
    broadcasting_locked=True,
    dropped_queues_renewed=True,
    forced_unlock=False,
    offset_frozen=False,
    broker_error_is_no_offset=True,
    send_back_checked=False,
    local_offset_max=2**63 - 1,
)

Reported: TypeAlias = Literal["CACHED", "IN_LISTENER", "STACKS"]
"""A part of an answer to GET_CONSUMER_RUNNING_INFO.

CACHED: how many messages of a queue the client has (cachedMsgCount). IN_LISTENER: how many of them are in the listener,
in order (transactionMsgCount). STACKS: what its threads do (jstack).
"""


class Unreported(NamedTuple):
    """The parts that a kind of client never reports: they are unknown, not 0 or empty."""

    language: str
    """As brokers list it (LanguageCode)."""
    versions: str
    """The first characters of its versions, as its answer has them (PROP_CLIENT_VERSION); empty: all. The number in a
    broker's list is the same for all releases of a client that is not Java."""
    parts: tuple[Reported, ...]


UNREPORTED = (
    Unreported("GO", "", ("CACHED",)),
    Unreported("GO", "v2.0.", ("STACKS",)),
    Unreported("CPP", "", ("IN_LISTENER", "STACKS")),
    Unreported("DOTNET", "", ("CACHED", "IN_LISTENER", "STACKS")),
)
"""Read from their sources, and seen: apache/rocketmq-client-go up to 2.1.2 may answer 0 cached messages while it has
some, and knows no stacks before 2.1.1 (which calls itself v2.1.0, as 2.1.0 does); apache/rocketmq-client-cpp up to
2.2.0 (`DefaultMQPushConsumerImpl::getConsumerRunningInfo`), of which Python's client is made; NewLife.RocketMQ up to
3.1 (`Consumer.GetConsumerRunningInfo`). Java's clients report all."""


@lru_cache(maxsize=1024)
def unreported(language: str, version: str) -> frozenset[Reported]:
    """Return what a client never reports.

    Args:
        language: as its broker lists it; empty: unknown.
        version: PROP_CLIENT_VERSION of its answer; empty: unknown.

    Examples:
        >>> sorted(unreported("CPP", "V4_6_0")), sorted(unreported("JAVA", "V5_4_0"))
        (['IN_LISTENER', 'STACKS'], [])
    """
    known = (one for one in UNREPORTED if one.language == language and version.startswith(one.versions))
    return frozenset(part for one in known for part in one.parts)
