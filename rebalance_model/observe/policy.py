"""Every threshold of the detection, named after RocketMQ's own property where there is one (milliseconds)."""

from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from rebalance_model.entities import Natural

Override: TypeAlias = dict[str, int | str]
"""``pattern``, a glob of group names (``pay-*``), and the thresholds that those groups have of their own."""
_ABOVE_0 = (
    "client_lock_max_live_time",
    "pull_max_idle_time",
    "heartbeat_broker_interval",
    "poll_interval",
    "source_silent_after",
    "stuck_after",
    "snapshot_interval",
    "group_memory",
)
SNAPSHOT_INTERVAL_MAX = 3_600_000
"""Who asks for the state at an instant looks back no further (`queues_at` of the read model)."""
_NOT_BELOW = (
    ("broker_lock_max_live_time", "client_lock_max_live_time", "two clients could consume one queue"),
    ("pull_threshold_for_queue", "pull_batch_size", "a client could not take what one pull brings"),
    ("channel_expired_after", "heartbeat_broker_interval", "members would be dropped between two heartbeats"),
    ("regression_critical", "regression_warning", "the smaller step back would be the worse one"),
)
"""What must not be below what, and what would be if it were."""

NEED_NO_PARAMETERS = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
"""Strategies that can be named without saying more."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thresholds; comparisons are strict ``>`` as in RocketMQ. Defaults are RocketMQ's own."""

    client_lock_max_live_time: Natural = 30_000
    """rocketmq.client.rebalance.lockMaxLiveTime: older, and the client refuses to consume."""
    lock_interval: Natural = 20_000
    """rocketmq.client.rebalance.lockInterval: how often a client renews its locks."""
    broker_lock_max_live_time: Natural = 60_000
    """rocketmq.broker.rebalance.lockMaxLiveTime: older, and the broker gives the lock to the next client that asks."""
    pull_max_idle_time: Natural = 120_000
    """rocketmq.client.pull.pullMaxIdleTime: longer without a pull, and the client throws the queue away."""
    pull_threshold_for_queue: Natural = 1_000
    """pullThresholdForQueue, messages: a client that has so many of a queue cached stops to pull it."""
    pull_batch_size: Natural = 32
    """pullBatchSize, messages: so many may have come with the last pull."""
    heartbeat_broker_interval: Natural = 30_000
    """heartbeatBrokerInterval: a member without a heartbeat for two of them is stale."""
    rebalance_wait_interval: Natural = 20_000
    """rocketmq.client.rebalance.waitInterval: within so long every client has looked again at what it should have."""
    persist_consumer_offset_interval: Natural = 5_000
    """persistConsumerOffsetInterval: how often a client commits."""
    channel_expired_after: Natural = 130_000
    """The broker's channelExpiredTimeout and one channelScanInterval: a channel without a heartbeat is gone by then."""
    moved_within: Natural = 300_000
    """A queue whose commit advanced within so long is in use: if no client shows what waits, that is a warning."""
    orphaned_critical_after: Natural = 30_000
    """A queue with messages that the lock of a client that is gone keeps waiting for longer is critical."""
    lock_contended_after: Natural = 50_000
    """A lock that a living client keeps another one from getting for longer is contended. In a rollout of 50 clients
    heirs were refused for up to 15 s, and where a topic's queues change for 25 s: each client sees the route at its own
    time (pollNameServerInterval, 30 s), and gives queues up in its next turn (20 s)."""
    lock_contended_window: Natural = 60_000
    """A lock that goes to and fro within so long is contended."""
    regression_warning: Natural = 100
    """An offset that fell back by more messages is a warning."""
    regression_critical: Natural = 10_000
    """An offset that fell back by more messages is critical."""
    unassigned_after_release: Natural = 40_000
    """A queue that its owner was seen to give up has an heir within so long: two turns of the clients' 20 s timer."""
    unassigned_after_new: Natural = 60_000
    """A new queue has an owner within so long: pollNameServerInterval (30 s) and the clients' 20 s timer."""
    unassigned_after: Natural = 150_000
    """Any other queue has an owner within so long: the broker's 120 s channel expiry, its 10 s scan and the timer."""
    assignment_settled_after: Natural = 60_000
    """So long after the last change every owner is where the strategy puts it."""
    stalled_open_after: Natural = 30_000
    """How much later than an ordered queue a concurrent one is reported: it has no order to keep."""
    allocate_strategy: str = ""
    """The strategy's name (AllocateMessageQueueStrategy.getName), where the clients' class does not say it: AVG,
    AVG_BY_CIRCLE or CONSISTENT_HASH."""
    source_silent_after: Natural = 15_000
    """A source whose ticks stop for longer, while another's go on, is silent: hooks tick every second."""
    clock_skew: Natural = 5_000
    """A clock that is further off the collector's is wrong."""
    clock_skew_after: Natural = 60_000
    """How long a clock must be wrong before it is reported."""
    clear_after: Natural = 60_000
    """How long a source, a broker or its locks must be well again before that is over: what comes and goes within so
    long is one incident."""
    poll_interval: Natural = 10_000
    """The collector's interval; two answers further apart than three of them prove nothing about what lies between."""
    stuck_after: Natural = 60_000
    """How long an ordered queue with lag may go without a commit."""
    unresponsive_after: Natural = 45_000
    """How long a client may go without an answer before its silence is named as the cause."""
    consume_frozen_after: Natural = 30_000
    """A consume time that stood longer is frozen: a suspended queue is tried again after 30 s at the latest
    (ConsumeMessageOrderlyService.submitConsumeRequestLater clamps to 10..30000)."""
    pull_suspended_max: Natural = 30_000
    """consumerTimeoutMillisWhenSuspend: a client that pulls shows a pull at least so often."""
    rebalance_settle_after: Natural = 150_000
    """A rebalance whose owners do not match the strategy is closed, unconverged, so long after its last change:
    the broker's 120 s channel expiry, its 10 s scan and the clients' 20 s timer."""
    storm_causes: Natural = 6
    """More causes to rebalance than that within `storm_window` are a storm."""
    storm_causes_rare: Natural = 4
    """So many are one already where that is more than 4 times the group's own rate."""
    storm_window: Natural = 300_000
    """Within what time causes are counted, and how long it must be quiet before a storm is over."""
    storm_rate_after: Natural = 3_600_000
    """A group's own rate of causes is known after so long."""
    subscription_differs_after: Natural = 150_000
    """How long members may subscribe differently: a rolling upgrade."""
    view_split_after: Natural = 60_000
    """How long brokers may list different members: more than one heartbeat."""
    lag_growth_window: Natural = 300_000
    """Lag that did not fall for so long, and grew, is growing."""
    no_clients_after: Natural = 60_000
    """How long a group with lag may be without a member."""
    snapshot_interval: Natural = 300_000
    """How often state is written although nothing changed; at most `SNAPSHOT_INTERVAL_MAX`."""
    group_memory: Natural = 7 * 24 * 3_600_000
    """A group without member, incident or event for so long is forgotten."""

    group: tuple[Override, ...] = ()
    """What groups have of their own; the first pattern that fits counts."""

    def of_group(self, group: str) -> "Policy":
        """What the group is judged by."""
        for override in self.group:
            if fnmatchcase(group, str(override["pattern"])):
                return self._under(override)
        return self

    def __post_init__(self) -> None:
        for name in _ABOVE_0:
            if getattr(self, name) == 0:
                msg = f"{name} must be above 0"
                raise ValueError(msg)
        if self.snapshot_interval > SNAPSHOT_INTERVAL_MAX:
            msg = f"snapshot_interval must not be above {SNAPSHOT_INTERVAL_MAX}: queries look back no further"
            raise ValueError(msg)
        for name, other, otherwise in _NOT_BELOW:
            if getattr(self, name) < getattr(self, other):
                msg = f"{name} must not be below {other}: {otherwise}"
                raise ValueError(msg)
        if self.allocate_strategy not in ("", *NEED_NO_PARAMETERS):
            msg = f"allocate_strategy must be one of {', '.join(NEED_NO_PARAMETERS)}, or empty"
            raise ValueError(msg)
        for override in self.group:
            if "source_silent_after" in override:
                msg = "source_silent_after is for all groups: they share their sources"
                raise ValueError(msg)
            self._under(override)

    def _under(self, override: Override) -> "Policy":
        """This policy with what the override changes, checked like any other."""
        pattern = override.get("pattern")
        if not isinstance(pattern, str) or not pattern:
            msg = "every [[group]] needs a pattern of group names"
            raise ValueError(msg)
        changes = {name: value for name, value in override.items() if name != "pattern"}
        try:
            return msgspec.convert(msgspec.structs.asdict(self) | {"group": ()} | changes, Policy)
        except msgspec.ValidationError as error:
            msg = f"[[group]] {pattern}: {error}"
            raise ValueError(msg) from None
