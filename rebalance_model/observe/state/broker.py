"""One broker's view of a group's members: as it answered, or rebuilt from its hook's events."""

import msgspec

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue


class ChannelBeats(msgspec.Struct, array_like=True):
    """A client's heartbeats on one channel; see `heartbeats`."""

    last: int
    returned: int = 0
    """The last one that came after one on another channel, at least half an interval after the one before; 0: none."""


class Heartbeats(msgspec.Struct, array_like=True):
    """A member's heartbeats on one broker."""

    last: int
    """The last one, epoch ms; before the first one, when the broker first listed the member."""
    channels: dict[str, ChannelBeats] = {}
    """The channels of the last two intervals: one, unless the client reconnects, or two processes share its id."""


class RebalanceLoop(msgspec.Struct, array_like=True):
    """A client that requests the member list every second, as one does whose rebalance never completes."""

    since: int
    last: int


class RefusedHeartbeats(msgspec.Struct, array_like=True):
    """A client's consecutive heartbeats that its broker did not take."""

    code: int
    """The response code of the last one; 0: it was accepted, and the broker skipped the group."""
    since: int
    last: int
    count: int = 0


class SeldomHeartbeats(msgspec.Struct, array_like=True):
    """The heartbeats of a client that runs, and sends them so seldom that its broker drops it in between."""

    interval: int
    """Time between its last two heartbeats, milliseconds."""
    since: int
    last: int


class OffsetReset(msgspec.Struct, array_like=True, frozen=True):
    """A tool has let the broker move the group's offsets of a topic."""

    at: int
    """Epoch milliseconds."""
    channel: str
    """The tool's."""
    queue_id: int
    """-1: of all queues."""


class HookView(msgspec.Struct, array_like=True):
    """The part of a broker's view that its hook adds."""

    source: str
    complete_at: int
    """When every member is known: each has sent a heartbeat since the hook's first event."""
    covered_since: int = 0
    """No event is missing since then."""
    locks: dict[MessageQueue, LockEntry] = {}
    client_by_channel: dict[str, str] = {}
    """By channel, the id of the client that uses it, if that client has not registered on it, or has unregistered."""
    unattributed_queries: dict[str, dict[MessageQueue, int]] = {}
    """By the channel of an unknown client, the queues whose offsets it queried, and when: credited once it is known."""
    recent_unregisters: dict[str, int] = {}
    """Clients that have just unregistered, and when: an answer in transit may still list them."""
    expected_back_until: dict[str, int] = {}
    """Members from before the broker's restart that have not come back, and until when they are expected."""
    unconfirmed_differences: tuple[str, ...] = ()
    """The differences that the last poll showed; see `polls.connections`."""
    heartbeats: dict[str, Heartbeats] = {}
    """The heartbeats of each member, by client id."""
    lost_locks: dict[MessageQueue, LockEntry] = {}
    """Locks that the broker lost at its restart, and that their holders, who rely on them for
    `client_lock_max_live_time` from the last renewal, have not renewed."""
    rebalance_loops: dict[str, RebalanceLoop] = {}
    """Clients that rebalance without end, by client id."""
    lost_at: int = 0
    """When missing events were last detected; 0: never."""
    refused_heartbeats: dict[str, RefusedHeartbeats] = {}
    """The clients whose heartbeats it does not take, by client id."""
    skips_group: bool = False
    """True if it accepts heartbeats and does not register the group, which was never created on it."""
    expired: dict[str, int] = {}
    """Members that were dropped because no heartbeat came for long, and when the last one came."""
    seldom_heartbeats: dict[str, SeldomHeartbeats] = {}
    """The clients that it drops between two heartbeats, though they pull, by client id."""
    resets: dict[str, OffsetReset] = {}
    """The last reset of its offsets by a tool, by topic."""
    unknown_pullers: dict[str, int] = {}
    """By channel, when a client that is not known last pulled: no tool does."""


class BrokerView(msgspec.Struct, array_like=True):
    """One broker's ConsumerGroupInfo: rebuilt from its hook's events, or as it answered a poll."""

    info: ConsumerGroupInfo
    asked: int
    failing: bool = False
    """True if the last request was not answered: this view is outdated then."""
    hook: HookView | None = None
    doubled: dict[str, dict[str, int]] = {}
    """Clients that its answers list on several channels, and since when on each of them."""
    unanswered: int = 0
    """The number of consecutive requests without any answer; an error code from the broker is an answer."""
    unanswered_since: int = 0
    """When the first of them was sent."""
    hook_source: str = ""
    """The source id of its hook, if it ever had one."""
    expected_back_until: dict[str, int] = {}
    """Members from before a restart that only polls showed, and until when they are expected."""
    back_at: int = 0
    """When it restarted, or answered again after it had not; 0: never."""
    stats_asked: int = 0
    """When its last answered request for offsets (GET_CONSUME_STATS) was sent."""
    skew: tuple[int, int] | None = None
    """The bounds of its clock minus the collector's, milliseconds; None: unknown. See `clock_skew`."""
    unreadable: tuple[str, ...] = ()
    """The parts of its last list of members that can't be read, each with the reason."""
    unreadable_offsets: tuple[str, ...] = ()
    """The parts of its last answer with offsets that can't be read."""
    group_missing_since: int = 0
    """Since when it answers that it does not have the group (SUBSCRIPTION_GROUP_NOT_EXIST); 0: it does not say so."""
    not_created: tuple[int, int] | None = None
    """Since when, and until when it was reported to list neither the group nor members of it; None: never."""
    is_fifo: bool = False
    """True if it gives the messages of a queue in order to clients that pop (consumeMessageOrderly)."""

    def listed(self) -> set[str]:
        """Return the clients that this broker lists as members, or is expected to list again."""
        ids = {info.client_id for info in self.info.channel_info_table.values()}
        ids |= self.expected_back_until.keys()
        return ids if self.hook is None else ids | self.hook.expected_back_until.keys()

    def lists(self, client_id: str) -> bool:
        """Return whether this broker lists the client as a member."""
        if client_id in self.expected_back_until or (
            self.hook is not None and client_id in self.hook.expected_back_until
        ):
            return True
        return any(info.client_id == client_id for info in self.info.channel_info_table.values())
