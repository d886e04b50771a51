"""One broker's view of a group's members: as it answered, or rebuilt from its hook's events."""

import msgspec

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue


class ChannelBeats(msgspec.Struct, array_like=True):
    """A client's heartbeats on one channel; see `heartbeats`."""

    last: int
    returned: int = 0
    """The last one that came after one on another channel, half an interval or more after the one before; 0: none."""


class Heartbeats(msgspec.Struct, array_like=True):
    """A member's heartbeats on one broker."""

    last: int
    """The last one; where none was heard yet, when the broker first named the member."""
    channels: dict[str, ChannelBeats] = {}
    """Of the last two intervals: one channel, unless the client reconnects, or two share its id."""


class LostLock(msgspec.Struct, array_like=True):
    """A lock that its broker forgot when it restarted."""

    client_id: str
    renewed: int
    """When its holder last renewed it: it relies on the lock for `client_lock_max_live_time` from then."""


class RebalanceLoop(msgspec.Struct, array_like=True):
    """A client that asks who the members are every second, as one does whose rebalance never ends."""

    since: int
    last: int


class HookView(msgspec.Struct, array_like=True):
    """What a broker's hook adds to its view."""

    source: str
    complete_at: int
    """From then on every member is known: each has sent a heartbeat since the hook's first event."""
    covered_since: int = 0
    """No event is missing since then."""
    locks: dict[MessageQueue, LockEntry] = {}
    client_by_channel: dict[str, str] = {}
    """By channel, the id of the client that uses it, where that has not registered on it, or no longer."""
    unattributed_queries: dict[str, dict[MessageQueue, int]] = {}
    """By a channel of an unknown client, the queues whose offsets it asked for, and when: credited once known."""
    recent_unregisters: dict[str, int] = {}
    """Clients that have just unregistered, and when: an answer that was on its way may still name them."""
    expected_back_until: dict[str, int] = {}
    """Members from before the broker's restart that have not come back, and until when that is waited for."""
    unconfirmed_differences: tuple[str, ...] = ()
    """What the last poll showed differently; see `corrections`."""
    heartbeats: dict[str, Heartbeats] = {}
    """Of each member, by client id."""
    lost_locks: dict[MessageQueue, LostLock] = {}
    """Locks that the broker forgot at its restart, and that their holders, who rely on them, have not taken again."""
    rebalance_loops: dict[str, RebalanceLoop] = {}
    """Clients that rebalance without end, by client id."""
    lost_at: int = 0
    """When events were last found missing; 0: never."""


class BrokerView(msgspec.Struct, array_like=True):
    """One broker's ConsumerGroupInfo: rebuilt from its hook's events, or as it answered when asked."""

    info: ConsumerGroupInfo
    asked: int
    failing: bool = False
    """Whether the last question was not answered: this view is old then."""
    hook: HookView | None = None
    doubled: dict[str, dict[str, int]] = {}
    """Clients that its answers list on several channels, and since when on each of them."""
    unanswered: int = 0
    """Questions in a row without any answer, even an error of its own."""
    unanswered_since: int = 0
    """When the first of them was asked."""
    hook_source: str = ""
    """The source of its hook, if it ever had one."""
    expected_back_until: dict[str, int] = {}
    """Members from before a restart that only polls showed, and until when they are waited for."""
    back_at: int = 0
    """When it restarted, or answered again after it had not; 0: never."""
    stats_asked: int = 0
    """When it was last asked for its offsets (GET_CONSUME_STATS) and answered."""
    skew: tuple[int, int] | None = None
    """Its clock less the collector's is at least and at most so much; None: not known. See `clock_skew`."""

    def lists(self, client_id: str) -> bool:
        """Whether the client is a member, by this broker."""
        if client_id in self.expected_back_until or (
            self.hook is not None and client_id in self.hook.expected_back_until
        ):
            return True
        return any(info.client_id == client_id for info in self.info.channel_info_table.values())
