"""All thresholds of the detection, named after RocketMQ's own property if there is one (milliseconds)."""

import re
from fnmatch import fnmatchcase
from itertools import chain
from typing import TypeAlias

import msgspec

from rebalance_model.broker import rebalance_lock_manager
from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.client import (
    CONSUME_DELAY_MAX,
    LOCK_INTERVAL,
    LOCK_MAX_LIVE_TIME,
    PULL_BATCH_SIZE,
    PULL_MAX_IDLE_TIME,
    PULL_THRESHOLD_FOR_QUEUE,
    WAIT_INTERVAL,
)
from rebalance_model.entities import Natural

Override: TypeAlias = dict[str, int | str | list[str] | dict[str, list[str]]]
"""``pattern``, a glob of group names (``pay-*``), optionally ``cluster``, a glob of cluster names, and the thresholds
that apply only to those groups of those clusters."""
_SELECTS = ("pattern", "cluster")
_ABOVE_0 = (
    "client_lock_max_live_time",
    "pull_max_idle_time",
    "heartbeat_broker_interval",
    "poll_interval",
    "source_silent_after",
    "stuck_after",
    "group_memory",
)
NEARBY = "MACHINE_ROOM_NEARBY"
NEED_NO_PARAMETERS = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
"""Strategies that need no parameters."""
CONFIGURABLE = (*NEED_NO_PARAMETERS, "CONFIG", "MACHINE_ROOM", *(f"{NEARBY}-{inner}" for inner in NEED_NO_PARAMETERS))
"""The names that `allocate_strategy` may have."""
_PARAMETERS = {
    "CONFIG": ("message_queue_list",),
    "MACHINE_ROOM": ("consumeridcs",),
    NEARBY: ("broker_deploy_in", "consumer_deploy_in"),
}
"""The parameters of a strategy, which it needs."""
_QUEUE = re.compile(r"[^@]+@.+:[0-9]{1,9}")
SNAPSHOT_INTERVAL_MIN = 1_000
"""The minimum snapshot interval: in each, the state of every group and queue is written; milliseconds."""
SNAPSHOT_INTERVAL_MAX = 3_600_000
"""The maximum snapshot interval: a query for an instant reads no further back (`queues_at` of the read model)."""
_NOT_BELOW = (
    ("broker_lock_max_live_time", "client_lock_max_live_time", "two clients could consume one queue"),
    ("pull_threshold_for_queue", "pull_batch_size", "a client could not take what one pull brings"),
    ("channel_expired_after", "heartbeat_broker_interval", "members would be dropped between two heartbeats"),
    ("regression_critical", "regression_warning", "the smaller step back would be the worse one"),
)
"""Thresholds that must not be below another one, and the consequence if they were."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Thresholds; comparisons are strict ``>`` as in RocketMQ. Defaults are RocketMQ's own.

    Defaults are not encoded: a former release, which refuses names that it doesn't know, reads a policy that has none.
    """

    client_lock_max_live_time: Natural = LOCK_MAX_LIVE_TIME
    """rocketmq.client.rebalance.lockMaxLiveTime: with an older lock the client refuses to consume."""
    lock_interval: Natural = LOCK_INTERVAL
    """rocketmq.client.rebalance.lockInterval: how often a client renews its locks."""
    broker_lock_max_live_time: Natural = rebalance_lock_manager.LOCK_MAX_LIVE_TIME
    """rocketmq.broker.rebalance.lockMaxLiveTime: an older lock goes to the next client that requests it."""
    pull_max_idle_time: Natural = PULL_MAX_IDLE_TIME
    """rocketmq.client.pull.pullMaxIdleTime: a queue without a pull for longer is dropped by the client."""
    pull_threshold_for_queue: Natural = PULL_THRESHOLD_FOR_QUEUE
    """pullThresholdForQueue: a client with this many cached messages of a queue stops pulling it."""
    pull_batch_size: Natural = PULL_BATCH_SIZE
    """pullBatchSize, messages: at most this many came with the last pull."""
    heartbeat_broker_interval: Natural = 30_000
    """heartbeatBrokerInterval: a member without a heartbeat for two of them is stale."""
    rebalance_wait_interval: Natural = WAIT_INTERVAL
    """rocketmq.client.rebalance.waitInterval: within this time every client has rebalanced again."""
    persist_consumer_offset_interval: Natural = 5_000
    """persistConsumerOffsetInterval: how often a client commits."""
    channel_expired_after: Natural = BrokerConfig().channel_expired_timeout + SCAN_PERIOD
    """The broker's channelExpiredTimeout and channelScanInterval: a channel without heartbeats is removed by then."""
    moved_within: Natural = 300_000
    """A queue whose commit advanced within this time is in use: if no client shows what waits, that is a warning."""
    orphaned_critical_after: Natural = 30_000
    """Messages that wait longer than this for the lock of a vanished client are critical."""
    lock_contended_after: Natural = 50_000
    """A lock that a living client keeps from another one for longer is contended. In a rollout of 50 clients new owners
    were refused for up to 15 s, and for up to 25 s when a topic's queues change: each client sees the route at its own
    time (pollNameServerInterval, 30 s), and releases queues at its next rebalance (20 s)."""
    lock_contended_window: Natural = 60_000
    """A lock that alternates between two clients within this time is contended."""
    regression_warning: Natural = 100
    """An offset that went back by more messages is a warning."""
    regression_critical: Natural = 10_000
    """An offset that went back by more messages is critical."""
    unassigned_after_release: Natural = 40_000
    """A released queue gets a new owner within this time: two intervals of the clients' 20 s timer."""
    unassigned_after_new: Natural = 60_000
    """A new queue gets an owner within this time: pollNameServerInterval (30 s) and the clients' 20 s timer."""
    unassigned_after: Natural = 150_000
    """Any other queue gets an owner within this time: the broker's 120 s channel expiry, 10 s scan and the timer."""
    assignment_settled_after: Natural = 60_000
    """The time after the last change by which every queue has the owner that the strategy names."""
    stalled_open_after: Natural = 30_000
    """The time by which a concurrent queue is reported later than an ordered one: its order does not matter."""
    uncommitted_after: Natural = 3_600_000
    """The longest time that a client that pulls by itself may read a queue without a commit: it commits at
    checkpoints."""
    allocate_strategy: str = ""
    """The strategy's name (AllocateMessageQueueStrategy.getName), if the clients' class does not determine it: AVG,
    AVG_BY_CIRCLE, CONSISTENT_HASH, CONFIG, MACHINE_ROOM, or MACHINE_ROOM_NEARBY- and the name of one of the first
    three."""
    message_queue_list: dict[str, list[str]] = {}
    """messageQueueList of CONFIG: by a glob of client ids (``10.0.0.5@*``) the queues of such a client, as
    ``topic@broker:id``."""
    consumeridcs: list[str] = []
    """consumeridcs of MACHINE_ROOM: the rooms whose queues are divided. A broker's room is the part of its name before
    the ``@``."""
    broker_deploy_in: str = ""
    """MachineRoomResolver.brokerDeployIn of MACHINE_ROOM_NEARBY: a regular expression that is searched in a broker's
    name, and whose first group is its room, such as ``^([^-]+)-``."""
    consumer_deploy_in: str = ""
    """MachineRoomResolver.consumerDeployIn of MACHINE_ROOM_NEARBY: the same for a client's id."""
    source_silent_after: Natural = 15_000
    """A source whose ticks stop for longer, while another's continue, is silent: hooks tick every second."""
    clock_skew: Natural = 5_000
    """A clock that differs by more from the collector's is wrong."""
    clock_skew_after: Natural = 60_000
    """The time that a clock must be wrong before it is reported."""
    clear_after: Natural = 60_000
    """The time that a source, a broker or its locks must be healthy again before the incident is resolved: repetitions
    within this time are one incident."""
    broker_gone_after: Natural = 24 * 3_600_000
    """A broker that has neither answered nor been listed by a name server for this long is no longer in the cluster:
    its incidents end. A broker that is down looks the same, so it must be longer than any repair takes."""
    poll_interval: Natural = 10_000
    """The collector's interval; two answers further apart than three intervals prove nothing about the time between."""
    stuck_after: Natural = 60_000
    """The longest time that an ordered queue with lag may go without a commit."""
    unresponsive_after: Natural = 45_000
    """The longest time that a client may go without an answer before that is named as the cause."""
    consume_frozen_after: Natural = CONSUME_DELAY_MAX
    """A consume time unchanged for longer is frozen: a suspended queue is retried after 30 s at the latest
    (ConsumeMessageOrderlyService.submitConsumeRequestLater clamps to 10..30000)."""
    pull_suspended_max: Natural = 30_000
    """consumerTimeoutMillisWhenSuspend: a client that pulls shows a pull at least this often."""
    pull_refused_after: Natural = 45_000
    """The longest time that a broker may answer every pull of a queue with an error: after its restart it does so until
    the clients' next heartbeats, up to 30 s later."""
    rebalance_settle_after: Natural = 150_000
    """A rebalance whose owners do not match the strategy is closed as not converged this long after its last change:
    the broker's 120 s channel expiry, its 10 s scan and the clients' 20 s timer."""
    storm_causes: Natural = 6
    """Causes of rebalances within `storm_window` beyond which they are a storm."""
    storm_causes_rare: Natural = 4
    """This many are already a storm if that is more than 4 times the group's usual rate."""
    storm_window: Natural = 300_000
    """The time within which causes are counted, and without causes before a storm is resolved."""
    storm_rate_after: Natural = 3_600_000
    """The time after which a group's usual rate of causes is known."""
    subscription_differs_after: Natural = 150_000
    """The longest time that members may subscribe differently: the duration of a rolling upgrade."""
    view_split_after: Natural = 60_000
    """The longest time that brokers may list different members: more than one heartbeat."""
    lag_growth_window: Natural = 300_000
    """Lag that did not fall for this long, and grew, is growing."""
    dead_letters_clear_after: Natural = 600_000
    """The time without a new dead letter after which the incident is resolved: additions within this time are one
    incident."""
    expiring_within: Natural = 1_800_000
    """The time within which a broker must be about to delete messages that the group has not read, at the present pace,
    for a warning."""
    no_clients_after: Natural = 60_000
    """The longest time that a group with lag may be without a member."""
    pop_not_acking_after: Natural = 60_000
    """The longest time that a member may get messages by POPs and finish none: pops that are not acknowledged come back
    after their invisible time (60 s by default)."""
    pop_stopped_after: Natural = 5_000
    """The time after the end of its last POP (pollTime) within which a member must pop again."""
    pop_refused_after: Natural = 30_000
    """The longest time that every POP of a member may be refused."""
    revive_backlog: Natural = 100
    """The number of records of popped messages that a broker may have to check, by its revive group: 1 to 7 are
    usual."""
    delayed_stuck_after: Natural = 300_000
    """The time that delayed messages, and retries, may be overdue before their broker counts as stuck."""
    revive_behind_after: Natural = 60_000
    """The longest time that this backlog may grow without a fall."""
    pop_held_after: Natural = 60_000
    """The longest time that a popped message may be kept by renewals (changeInvisibleTime), or hold back those behind
    it in order."""
    request_mode_mixed_after: Natural = 40_000
    """The longest time that a topic may be popped and pulled at once: until all members have seen a change of its mode
    (20 s)."""
    proxy_client_silent_after: Natural = 30_000
    """The longest time without a heartbeat of a proxy's client, which sends one every 10 s."""
    snapshot_interval: Natural = 300_000
    """The interval at which state is written although nothing changed; at least a second, at most an hour."""
    group_gone_after: Natural = 300_000
    """A group without members about which nothing is reported for this long, though its brokers answer, was deleted:
    its incidents end, and it is forgotten."""
    group_memory: Natural = 7 * 24 * 3_600_000
    """A group without any event for this long is forgotten, with its incidents if its sources report; and a queue
    without route, owner, incident or event."""

    group: tuple[Override, ...] = ()
    """Thresholds for single groups; the first override counts whose pattern, and cluster if it has one, match."""

    @property
    def fifo_stuck_after(self) -> int:
        """Return how long the commit of a popped FIFO queue may stand while messages wait; milliseconds.

        It is only seen by answers. The time between a request and its answer does not count, so that six intervals are
        a little less than a minute.
        """
        return self.stuck_after - self.poll_interval // 10

    def of_group(self, cluster: str, group: str) -> "Policy":
        """Return the thresholds that apply to a group of a cluster."""
        for override in self.group:
            is_there = fnmatchcase(cluster, str(override.get("cluster", "*")))
            if is_there and fnmatchcase(group, str(override["pattern"])):
                return self._under(override)
        return self

    def __post_init__(self) -> None:
        for name in _ABOVE_0:
            if getattr(self, name) == 0:
                msg = f"{name} must be above 0"
                raise ValueError(msg)
        if self.snapshot_interval < SNAPSHOT_INTERVAL_MIN:
            msg = f"snapshot_interval must not be below {SNAPSHOT_INTERVAL_MIN}: each time, all state is written"
            raise ValueError(msg)
        if self.snapshot_interval > SNAPSHOT_INTERVAL_MAX:
            msg = f"snapshot_interval must not be above {SNAPSHOT_INTERVAL_MAX}: queries look back no further"
            raise ValueError(msg)
        for name, other, otherwise in _NOT_BELOW:
            if getattr(self, name) < getattr(self, other):
                msg = f"{name} must not be below {other}: {otherwise}"
                raise ValueError(msg)
        self._check_strategy()
        for override in self.group:
            if "source_silent_after" in override:
                msg = "source_silent_after is for all groups: they share their sources"
                raise ValueError(msg)
            self._under(override)

    def _check_strategy(self) -> None:
        """Check the parameters of the strategy; those of another one, as an override may have left them, are unused."""
        name = self.allocate_strategy
        if name not in ("", *CONFIGURABLE):
            msg = f"allocate_strategy must be one of {', '.join(CONFIGURABLE)}, or empty"
            raise ValueError(msg)
        given = [parameter for of in _PARAMETERS.values() for parameter in of if getattr(self, parameter)]
        if given and not name:
            msg = f"{given[0]} needs allocate_strategy: the strategy that it is a parameter of"
            raise ValueError(msg)
        missing = [one for one in _PARAMETERS.get(name.partition("-")[0], ()) if not getattr(self, one)]
        if missing:
            msg = f"allocate_strategy {name} needs {' and '.join(missing)}"
            raise ValueError(msg)
        for queue in chain.from_iterable(self.message_queue_list.values()):
            if _QUEUE.fullmatch(queue) is None:
                msg = f"message_queue_list: {queue!r} is not a queue: use TOPIC@BROKER:ID"
                raise ValueError(msg)
        for parameter in _PARAMETERS[NEARBY]:
            _check_pattern(parameter, getattr(self, parameter))

    def _under(self, override: Override) -> "Policy":
        """Return this policy with an override applied, checked like any other."""
        pattern = override.get("pattern")
        if not isinstance(pattern, str) or not pattern:
            msg = "every [[group]] needs a pattern of group names"
            raise ValueError(msg)
        cluster = override.get("cluster", "*")
        if not isinstance(cluster, str) or not cluster:
            msg = f"[[group]] {pattern}: cluster must be a pattern of cluster names; omit it for all clusters"
            raise ValueError(msg)
        changes = {name: value for name, value in override.items() if name not in _SELECTS}
        try:
            return msgspec.convert(msgspec.structs.asdict(self) | {"group": ()} | changes, Policy)
        except msgspec.ValidationError as error:
            msg = f"[[group]] {pattern}: {error}"
            raise ValueError(msg) from None


def _check_pattern(parameter: str, text: str) -> None:
    """Check that a regular expression has a group; an empty one is not set."""
    try:
        groups = re.compile(text).groups
    except re.error as error:
        msg = f"{parameter}: {text!r} is not a regular expression: {error}"
        raise ValueError(msg) from None
    if text and not groups:
        msg = f"{parameter}: {text!r} has no group: put the part that is the room in parentheses"
        raise ValueError(msg)
