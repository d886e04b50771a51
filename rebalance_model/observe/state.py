"""The state of one consumer group, as its telemetry shows it: what is kept between events.

Kept as MessagePack; new fields are appended with defaults, so that an older blob loads.
"""

from collections import Counter
from typing import Literal

import msgspec

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Subscription
from rebalance_model.observe.polls.process_queue_view import ProcessQueueView

STATE_VERSION = 2
UNANSWERED_POLLS = 2


class Sequence(msgspec.Struct, array_like=True):
    """How far one source has been folded: the start of its incarnation and its last seq."""

    start: int
    seq: int
    skipped: bool = False
    """Whether its last event came too late to be folded: what it says next comes after a gap."""

    def covers(self, start: int, seq: int) -> bool:
        """Whether an event of this incarnation and number was folded before."""
        return (start, seq) <= (self.start, self.seq)


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
    """When its holder renewed it last, and believes in it for `client_lock_max_live_time` from then."""


class Restless(msgspec.Struct, array_like=True):
    """A client that asks who the members are every second, as one does whose rebalance never ends."""

    since: int
    last: int


class HookView(msgspec.Struct, array_like=True):
    """What a broker's hook adds to its view."""

    source: str
    complete_at: int
    """From then on every member is known: it has heartbeaten at least once since the hook's telling began."""
    covered_since: int = 0
    """Nothing is missing since then."""
    locks: dict[MessageQueue, LockEntry] = {}
    speakers: dict[str, str] = {}
    """Which client speaks on a channel, where it has not (or no longer) registered: channel to client id."""
    waiting: dict[str, dict[MessageQueue, int]] = {}
    """Queues that an unknown channel spoke of, and when: credited as soon as it says who it is."""
    goodbyes: dict[str, int] = {}
    """Who has just left, and when: an answer that was on its way may still name it."""
    returning: dict[str, int] = {}
    """Members from before the broker's restart that have not come back, and until when that is waited for."""
    doubts: tuple[str, ...] = ()
    """What the last poll saw otherwise; see `corrections`."""
    heartbeats: dict[str, Heartbeats] = {}
    """Of each member, by client id."""
    lost_locks: dict[MessageQueue, LostLock] = {}
    """Forgotten at the restart, and not taken again since by those who believe that they have them."""
    restless: dict[str, Restless] = {}
    """Clients that rebalance again and again, by client id."""
    lost_at: int = 0
    """When events were last found missing; 0: never."""


class Silence(msgspec.Struct, array_like=True):
    """A source that is not heard, or not in time."""

    since: int
    why: Literal["SILENT", "LATE", "BUFFER_FULL"] = "SILENT"
    """No tick comes; ticks stay behind; too many events waited for it."""


class Loss(msgspec.Struct, array_like=True):
    """What a source said that it could not send (TELEMETRY_LOST)."""

    from_time: int
    to_time: int
    count: int
    reason: str


class BrokerView(msgspec.Struct, array_like=True):
    """One broker's ConsumerGroupInfo: rebuilt from its hook's events, or as it answered when asked."""

    info: ConsumerGroupInfo
    asked: int
    failing: bool = False
    """The last question was not answered: what stands here is old."""
    hook: HookView | None = None
    doubled: dict[str, dict[str, int]] = {}
    """Clients that its answers list on several channels, and since when on each of them."""
    unanswered: int = 0
    """Questions in a row to which nothing came, not even an error of its own."""
    unanswered_since: int = 0
    """When the first of them was asked."""
    told_by: str = ""
    """The source of its hook, if it ever had one."""
    awaited: dict[str, int] = {}
    """Members from before a restart that only polls showed, and until when they are waited for."""
    back_at: int = 0
    """When it restarted, or answered again after it had not; 0: never."""
    stats_asked: int = 0
    """When it was last asked for its offsets (GET_CONSUME_STATS) and answered."""
    skew: tuple[int, int] | None = None
    """Its clock less the collector's is at least and at most so much; None: not known. See `clock_skew`."""

    def lists(self, client_id: str) -> bool:
        """Whether the client is a member, by this broker."""
        if client_id in self.awaited or (self.hook is not None and client_id in self.hook.returning):
            return True
        return any(info.client_id == client_id for info in self.info.channel_info_table.values())


class ClientView(msgspec.Struct, array_like=True):
    """What a client last said of itself (GET_CONSUMER_RUNNING_INFO)."""

    asked: int
    """When it was last asked, with an answer or without, as all but `client_now`."""
    answered: int
    """When its last answer came; 0 before the first."""
    asked_at_answer: int = 0
    """When the question was asked that it last answered."""
    client_now: int = 0
    """The newest stamp in that answer, by the client's clock."""
    orderly: bool | None = None
    strategy: str = ""
    start_time: int = 0
    subscriptions: tuple[Subscription, ...] = ()
    queues: dict[MessageQueue, ProcessQueueView] = {}
    unanswered: int = 0
    """Questions in a row that got no answer, though the broker answers."""
    unanswered_since: int = 0
    """When the first of them was asked."""
    discovered: bool = False
    """Was a member when observation began: what its first answer holds was not assigned just now."""
    asked_before: int = 0
    """When the question was asked that it answered before its last."""
    declared: int = 0
    """Answers in a row that declare the same strategy and consume mode, counted up to 2."""
    pops: bool = False
    """Whether it pops queues, which clients share, rather than pulls its own."""
    heard: tuple[Subscription, ...] = ()
    """What it subscribed in its last heartbeat that said so; see `subscriptions`."""
    heard_at: int = 0
    """When that was heard; 0: never."""
    skew: tuple[int, int] | None = None
    """Its clock less the collector's is at least and at most so much; None: not known. See `clock_skew`."""

    def time_of(self, stamp: int) -> int:
        """Bring a stamp of its last answer to the timeline.

        Its clock is trusted, unless its answers contradict that: then as if the newest stamp had been made when the
        answer came that shows the smallest difference.
        """
        low, high = self.skew or (self.client_now - self.answered, -1)
        return min(stamp if low <= 0 <= high else stamp - low, self.answered)

    @property
    def silent(self) -> bool:
        """Whether the client is unresponsive: one question that fails may be a long garbage collection."""
        return self.unanswered >= UNANSWERED_POLLS


QueueTold = tuple[str | None, str | None, bool | None, Literal["OK", "WARN", "BAD", "UNKNOWN"], str]
"""What the last QueueSnapshot said: owner, expected owner, locked, status, reason."""


class Refusals(msgspec.Struct, array_like=True):
    """One client's asking in vain, and in a row, for a queue's lock."""

    first: int
    last: int
    count: int = 1
    orphaned: int = 0
    """When it was last refused for the sake of a client that was no member; 0: never."""
    kept: int = 0
    """How often since then, for the sake of members."""


class Regression(msgspec.Struct, array_like=True):
    """A commit below the one before it, until a later one passes that."""

    mark: int
    """The commit that was fallen from."""
    to: int
    """The lowest since."""
    at: int
    cause: str
    channel: str
    """On which it was committed: whose that is may be said later."""
    shown: bool
    """Whether it counts yet; see `commits`."""
    worth_ms: int | None
    """How long it took to consume from `to` to `mark`; None: not known."""


class Reread(msgspec.Struct, array_like=True):
    """Messages that are consumed again."""

    start: int
    mark: int
    """So far the commit had come before."""
    client_id: str
    """Who reads them again."""
    rebalance_id: str
    """The rebalance that it is charged to; empty: none was going on."""
    worth_ms: int | None
    """How long it took to consume them; None: not known."""


class Rounds(msgspec.Struct, array_like=True):
    """How far the members have been asked in turn; times are when they were asked."""

    after: int = 0
    """A member has had its turn in the present round if it was asked later than that."""
    heard: int = 0
    """How many have had it, with an answer or without."""
    known_at: int = 0
    """In the last whole round every member answered, and none was asked before that; 0: not every member did."""


class FormerHolder(msgspec.Struct, array_like=True):
    """How far a client had come with a queue when it lost it, or its broker restarted."""

    client_id: str
    commit: int
    """The highest offset committed until then, or by it since; -1: not known."""
    pulled: int
    """So far it may have consumed; -1: not known."""
    consumed: int
    """So far it had come at its own pace; -1: not known."""
    last_sign: int
    """When it unlocked the queue, or else last was granted the lock, pulled or committed, before it lost it."""
    lost_at: int
    channel: str
    """On which it pulled last: the sum of its last second's pulls may follow."""


class Rival(msgspec.Struct, array_like=True):
    """Who pulls a queue beside the client that has it."""

    client_id: str
    since: int
    pull_time: int


class HookQueue(msgspec.Struct, array_like=True):
    """What the broker's hook told of one queue."""

    holder: str | None = None
    """Who locked it last, or (concurrent) last began to pull it; None: nobody, or not known."""
    observed_at: int = 0
    """When that was: an answer to an older question is older evidence. 0: never."""
    pull_time: int = 0
    """The holder's last pull."""
    pull_offset: int = -1
    commit_time: int = 0
    commit_offset: int = -1
    holder_since: int = 0
    """When the holder took it."""
    asked_at: int = 0
    """When anybody last asked where to begin."""
    start_offset: int = -1
    """Where the holder began to pull, or went back to; -1: it has not pulled yet."""
    start_commit: int = -1
    """What was committed when it took the queue."""
    pulled_again: bool = False
    """Its last pull asked for what the one before asked for: nothing was there for it."""
    committer: str | None = None
    """Who committed last."""
    advanced_at: int = 0
    """When the commit last advanced."""
    waiting_since: int = 0
    """Since when messages that were pulled wait for a commit to advance; 0: none wait."""
    commit_at_restart: int = -1
    """What was committed when the broker restarted, until a commit says where it stands now."""
    refusals: dict[str, Refusals] = {}
    """Who is refused its lock, by client id."""
    takers: tuple[tuple[str, int, str], ...] = ()
    """Who took its lock from whom: the last four, when, and among which members (a hash)."""
    last_sign: int = 0
    """When the holder was last granted the lock, pulled, or committed."""
    begun_at: int = 0
    """When the holder was granted the lock or (concurrent) first pulled, since it has the queue or its broker
    restarted; 0: it has not yet."""
    channel: str = ""
    """On which the holder pulled last."""
    regression: Regression | None = None
    reread: Reread | None = None
    former: FormerHolder | None = None
    """Who last consumed the queue before this holder, or before the broker restarted."""
    rival: Rival | None = None


class Unowned(msgspec.Struct, array_like=True, frozen=True):
    """Since when nobody has a queue, and what is known of the beginning."""

    since: int
    """Epoch milliseconds."""
    how: Literal["SAID", "NEW", ""] = ""
    """SAID: its owner was seen to give it up; NEW: the route did not have it before."""
    lag: int | None = None
    """The lag then."""
    heir: str | None = None
    """Who was to have it last, by the strategy."""


class Pace(msgspec.Struct, array_like=True):
    """How lag goes, and how fast the queue is usually filled and consumed."""

    at: int
    """Where the present period began by which the usual pace is measured."""
    commit: int
    broker: int
    rising_since: int
    """Since when lag has been above where it was then, and has not fallen."""
    rising_commit: int
    rising_broker: int
    top: int
    """The most that it has been since then."""
    top_at: int
    produced: int | None = None
    """The usual pace, messages an hour; None: not known yet."""
    consumed: int | None = None


class FallenBack(msgspec.Struct, array_like=True):
    """A commit that answers show below an earlier one."""

    mark: int
    """What was committed before."""
    to: int
    """The lowest since."""
    answers: int = 0
    """How many answers have shown a lower commit; of an offset 0 it is not known whether it is one."""


class QueueState(msgspec.Struct, array_like=True):
    """One queue: who has it, who should, how far it is consumed."""

    owner: str | None = None
    expected: str | None = None
    former_owner: str | None = None
    released_at: int | None = None
    lock_free_at: int | None = None
    """When the broker's lock of the former owner runs out; None where none was held."""
    commit_offset: int | None = None
    broker_offset: int | None = None
    commit_known: bool = False
    """An offset 0 without a commit ever seen may mean that none is stored."""
    stats_at: int = 0
    """When its offsets last came."""
    stalled_ms: int = 0
    """Covered time with lag and no advance of the commit."""
    told: QueueTold | None = None
    hook: HookQueue | None = None
    in_route: bool = False
    """Whether the topic's route has it."""
    unowned: Unowned | None = None
    """None while somebody has it, and before that could be known."""
    dropped_by: str | None = None
    """Whose last answer shows it dropped and not yet given up."""
    rival: str | None = None
    """Who answered last that it holds the queue, too."""
    pace: Pace | None = None
    """None before its lag was known."""
    owner_seen: tuple[str, int] | None = None
    """Who answered last that it has the queue, and the newest lock or pull that its answer showed."""
    rebalance_id: str = ""
    """The last rebalance that moved or interrupted it."""
    fallen_back: FallenBack | None = None
    """By the broker's answers (GET_CONSUME_STATS), until one shows a commit that has passed the mark."""


class Route(msgspec.Struct, array_like=True):
    """The read queues of one topic, in Java's order."""

    queues: tuple[MessageQueue, ...]
    asked: int
    former: tuple[MessageQueue, ...] = ()
    """The queues before the last change, until every owner follows it."""
    changed_at: int = 0
    """When that change was seen."""


class Move(msgspec.Struct, array_like=True):
    """One queue within an open rebalance."""

    from_client: str | None
    """Who had it before the rebalance; None: nobody ever had."""
    to_client: str | None
    """Who has it now."""
    polled_sign: int | None
    """When `from_client` last locked or pulled it, as its answers showed."""
    hook_sign: int | None = None
    """When it last did, unlocked it or committed, by the broker's hook."""
    begun_at: int | None = None
    """When `to_client` was granted the lock or (concurrent) first pulled."""
    begun_is_exact: bool = False
    """Whether the broker's hook saw that; an answer shows a later lock or pull, perhaps."""
    commit: int | None = None
    """The last commit that an answer had shown when `from_client` lost it."""
    reread: tuple[int, int | None, int | None] = (0, 0, 0)
    """What holders in between have read again: at least, likely, at most; None: not known."""


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """Something that makes a group rebalance."""

    time: int
    """Epoch milliseconds."""
    code: str
    subject: str
    client_id: str | None


class Episode(msgspec.Struct, array_like=True):
    """A rebalance that has not settled."""

    rebalance_id: str
    start_time: int
    trigger: str
    trigger_client: str | None
    causes: list[str]
    members_before: tuple[str, ...]
    last_cause: int
    last_change: int
    moves: dict[MessageQueue, Move] = {}
    waits_for: MessageQueue | None = None
    """A queue that was not yet where it belongs when all were last looked at: until it is, the others need no look."""


class Pending(msgspec.Struct, array_like=True):
    """What a rule holds that has not opened yet."""

    since: int
    """Since when it has held; pushed on by the time in which it was not known."""
    frozen_at: int | None = None

    def freeze(self, now: int) -> None:
        """It is not known any more."""
        if self.frozen_at is None:
            self.frozen_at = now

    def thaw(self, now: int) -> None:
        """It is known again: what passed in between does not count."""
        if self.frozen_at is not None:
            self.since += now - self.frozen_at
            self.frozen_at = None


class HeldCause(msgspec.Struct, array_like=True):
    """One sub-cause of an open incident."""

    sub_cause: str
    client_id: str | None
    """Whose fault it was when it was first seen."""
    held_ms: int = 0
    """For how long it has held, up to `Incident.counted_until`."""


class Incident(msgspec.Struct, array_like=True):
    """An open incident."""

    incident_id: str
    code: str
    subject: str
    opened_at: int
    severity: Literal["info", "warning", "critical"]
    sub_cause: str
    queue: MessageQueue | None
    client_id: str | None
    parent: str | None = None
    cleared_at: int | None = None
    """Since when it has been clear; None while it is not."""
    causes: list[HeldCause] = []
    """Every sub-cause that it has had, the first one first."""
    holds_since: int = 0
    """When it opened, or last held again after it had been clear."""
    counted_until: int = 0
    """Up to when `causes` counts the time of the present sub-cause."""

    @property
    def main_cause(self) -> HeldCause:
        """The sub-cause that held longest; among equals the first."""
        return max(self.causes, key=lambda cause: cause.held_ms)

    def count(self, now: int) -> None:
        """Add the time since it was last counted to the present sub-cause; no time counts while it is clear."""
        cause = next((cause for cause in self.causes if cause.sub_cause == self.sub_cause), None)
        if cause is None:
            self.causes.append(cause := HeldCause(self.sub_cause, self.client_id))
        if self.cleared_at is None:
            cause.held_ms += now - self.counted_until
        self.counted_until = now


class Reach(msgspec.Struct, array_like=True):
    """How one collector reaches a broker (BROKER_STATUS); times are epoch milliseconds."""

    unanswered: int = 0
    """Questions in a row to which nothing came, not even an error of the broker's own."""
    asked_in_vain: int = 0
    """When the first of them was asked."""
    first_at: int = 0
    """When that was known, and when of the second one."""
    second_at: int = 0


class ClusterBroker(msgspec.Struct, array_like=True):
    """What broadcasts say of one broker."""

    hook: str = ""
    """The source of its hook; empty: it never had one."""
    reached_by: dict[str, Reach] = {}
    """By collector."""
    skew: tuple[int, int] | None = None
    """Its clock is ahead of the cluster's by at least and at most so many milliseconds; None: never measured."""
    skew_since: int = 0
    """When the question was asked that first showed that its clock is as it is: right, ahead or behind."""


class ClusterState(msgspec.Struct):
    """What broadcasts say of a cluster's brokers, hooks and collectors: the same in every shard."""

    cluster: str
    group: str = ""
    """A row of the cluster has no group."""
    sequences: dict[str, Sequence] = {}
    """By source, its last broadcast."""
    sources: dict[str, str] = {}
    """By broker or collector, its source; of a broker its newest hook."""
    collectors: dict[str, None] = {}
    brokers: dict[str, ClusterBroker] = {}
    silent: dict[str, Silence] = {}
    """Sources that are silent or late."""
    ended: dict[str, int] = {}
    """Sources that have said that nothing more will come, and when."""
    losses: dict[str, Loss] = {}
    """What each source said last that it could not send."""
    incidents: dict[str, Incident] = {}
    """By ``code subject``."""
    pending: dict[str, Pending] = {}
    unsettled: dict[str, int] = {}
    """How many of both there are, by their subjects."""
    next_check: int = 0
    """When everything is to be judged anew; 0: no time is known."""
    rows: int = 0

    def keeps_up(self, source: str) -> bool:
        """Whether the source speaks, and is not late."""
        return source not in self.silent and source not in self.ended

    def incident(self, code: str, subject: str) -> Incident | None:
        """The incident of that code and subject that holds now; None also while it waits to be resolved."""
        found = self.incidents.get(f"{code} {subject}")
        return found if found is not None and found.cleared_at is None else None


class GroupTold(msgspec.Struct, array_like=True, frozen=True):
    """What the last GroupSnapshot said: another row is written when one of these is another."""

    members: tuple[str, ...]
    subscriptions: tuple[str, ...]
    consume_type: str
    message_model: str
    consume_from_where: str
    orderly: bool | None
    strategy: str | None
    health: Literal["OK", "WARN", "BAD", "UNKNOWN"]
    health_reason: str
    coverage: str


class StateVersionError(ValueError):
    """State of another release, which this one can't go on from."""

    def __init__(self, found: int) -> None:
        super().__init__(f"the state is of version {found}, this release goes on from version {STATE_VERSION} alone")


class InvariantError(AssertionError):
    """The state contradicts itself: a bug of ours."""


class GroupState(msgspec.Struct):
    """Everything known of one consumer group of one cluster."""

    cluster: str
    group: str
    version: int = STATE_VERSION
    collector: str = ""
    """The collector that is, or was last, followed; empty: only hooks have told of the group."""
    polled_at: int = 0
    """When it last said anything of the group."""
    sequences: dict[str, Sequence] = {}
    last_seen: int = 0
    """When telemetry last said anything of the group."""
    covered_since: int = 0
    """Nothing is missing from the followed source since then."""
    orderly: bool | None = None
    views: dict[str, BrokerView] = {}
    members: tuple[str, ...] = ()
    clients: dict[str, ClientView] = {}
    routes: dict[str, Route] = {}
    queues: dict[MessageQueue, QueueState] = {}
    episode: Episode | None = None
    incidents: dict[str, Incident] = {}
    """By ``code subject``."""
    pending: dict[str, Pending] = {}
    """By ``code subject``: what holds, but not for long enough."""
    unsettled: dict[str, int] = {}
    """How many of both there are, by their subjects."""
    next_check: int = 0
    """When everything is to be judged anew, because time alone may have changed it; 0: no time is known."""
    told: GroupTold | None = None
    next_snapshot: int = 0
    rows: int = 0
    """Rows told so far: the seq of the last effect."""
    corrections: tuple[str, ...] = ()
    """What polls corrected since the last GroupSnapshot."""
    strategy: str = ""
    """The strategy that names the expected owners (AllocateMessageQueueStrategy.getName); empty: not known."""
    strategy_basis: Literal["DECLARED", "CONFIGURED", "INFERRED", ""] = ""
    inferred: str = ""
    """The strategy that alone explained who had what, where none is known otherwise."""
    tried_at: int = 0
    """`moved_at` when that was last tried."""
    rounds: Rounds = msgspec.field(default_factory=Rounds)
    expected_at: int = 0
    """When an expected owner last became another."""
    moved_at: int = 0
    """When a queue last got an owner."""
    manned_since: int = 0
    """Since when there has been a member."""
    shares: dict[str, int] = {}
    """How many queues each member has, retry queues left out; who has none is not in it."""
    causes: tuple[Cause, ...] = ()
    """What has made it rebalance lately, at most so much as `causes` keeps."""
    causes_since: int = 0
    """Since when causes have been counted."""
    causes_counted: int = 0
    """How many there were since then."""
    unmanned_since: int = 0
    """When its last member went; 0: it has members, or never had any."""
    silent: dict[str, Silence] = {}
    """Sources that are silent or late."""
    lost_at: int = 0
    """When answers of the followed collector were last found missing; 0: never."""
    losses: dict[str, Loss] = {}
    """What each source said last that it could not send."""
    message_model: str = ""
    """What its members said last, while any were listed; empty: not known."""
    advanced_at: int = 0
    """When an answer (GET_CONSUME_STATS) last showed a queue's commit further than the one before; 0: never."""
    reread: dict[str, dict[MessageQueue, Reread]] = {}
    """By rebalance, what was read again because of it; see `duplicate_consumption`."""

    @property
    def is_polled(self) -> bool:
        """Whether a collector is followed, and speaks."""
        return bool(self.collector) and self.collector not in self.silent

    @property
    def key(self) -> str:
        """The group's key in the log and in the state store."""
        return f"{self.cluster}/{self.group}"

    def validate(self) -> None:
        """Check what must hold after every step.

        Raises:
            InvariantError: names the group and what does not hold.
        """
        ids: set[str] = set()
        for broker, view in self.views.items():
            table = view.info.channel_info_table
            misfiled = any(channel != info.channel for channel, info in table.items())
            self._require(not misfiled, f"{broker} has a member under another's channel")
            ids.update(info.client_id for info in table.values())
            ids.update(view.awaited)
            if view.hook is not None:
                ids.update(view.hook.returning)
        self._require(ids == set(self.members), "the members are not those of the brokers' views")
        self._require(ids <= self.clients.keys(), "a member has no client view")
        for mq, queue in self.queues.items():
            self._require(queue.owner is None or queue.owner in self.members, f"the owner of {mq} is no member")
            self._require(queue.stalled_ms >= 0, f"{mq} has stalled for a negative time")
        owners = Counter(q.owner for mq, q in self.queues.items() if q.owner is not None and not mq.is_retry)
        self._require(owners == self.shares, "the members' shares are not counted right")
        for name, incident in self.incidents.items():
            self._require(name == f"{incident.code} {incident.subject}".rstrip(), f"incident {name} is filed wrongly")
            self._require(name not in self.pending, f"incident {name} is open and pending")
        subjects = Counter(name.partition(" ")[2] for name in (*self.incidents, *self.pending))
        self._require(subjects == self.unsettled, "the subjects of incidents are not counted right")
        if self.episode is not None:
            self._require(self.episode.last_change >= self.episode.start_time, "a rebalance changed before it began")

    def _require(self, holds: bool, what: str) -> None:  # noqa: FBT001  (reads as the condition that it is)
        if not holds:
            msg = f"{self.key}: {what}"
            raise InvariantError(msg)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(GroupState)


class _Versioned(msgspec.Struct):
    version: int = 0


def check_version(blob: bytes) -> None:
    """Check that a blob of state is of this version.

    Raises:
        StateVersionError: it was written by another release.
    """
    found = msgspec.msgpack.decode(blob, type=_Versioned).version
    if found != STATE_VERSION:
        raise StateVersionError(found)


def encode_group(state: GroupState) -> bytes:
    """The state as MessagePack."""
    return _ENCODER.encode(state)


def decode_group(blob: bytes) -> GroupState:
    """The state from MessagePack of this or an older version."""
    return _DECODER.decode(blob)
