"""Where the releases of RocketMQ differ: one value that the parts ask, instead of version checks scattered about.

The default of every field is 5.x, compared with the classes of 5.4.0; `RELEASE_4_9` is 4.9.8, read from its source.
"""

import msgspec


class Dialect(msgspec.Struct, frozen=True):
    """What a release does in the points where releases differ."""

    client_events: bool = True
    """The broker tells its listeners of each client: CLIENT_REGISTER and CLIENT_UNREGISTER (since 5.0)."""
    broadcasting_notified: bool = False
    """Members of a BROADCASTING group, too, are told that the members changed (until 5.3.0)."""
    topic_group_table: bool = True
    """The broker keeps an index of the groups of a topic, which may hold more than they subscribe (since 5.3.3)."""
    heartbeat_v2: bool = True
    """A heartbeat may carry a fingerprint instead of the subscriptions (since 5.1.3)."""
    unknown_group_registers: bool = False
    """A heartbeat of a group that has no configuration, and may get none, registers all the same (until 5.1.0)."""
    group_names_checked: bool = True
    """A group is not made by its first heartbeat if its name is blank, too long or of odd characters (since 5.0)."""
    offset_owner_checked: bool = True
    """A commit for an unknown group or topic is refused (since 5.0)."""
    server_side_reset: bool = True
    """The broker keeps offsets that an operator set, until the client has taken them (since 5.0)."""


RELEASE_5 = Dialect()
RELEASE_4_9 = Dialect(
    client_events=False,
    broadcasting_notified=True,
    topic_group_table=False,
    heartbeat_v2=False,
    unknown_group_registers=True,
    group_names_checked=False,
    offset_owner_checked=False,
    server_side_reset=False,
)
