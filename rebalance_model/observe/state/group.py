"""The state of one consumer group between two events.

A group's dead letters at its brokers, as these have answered (GET_TOPIC_STATS_INFO).

Offsets accumulate: an answer that shows no more than an earlier one proves that nothing was added in between, however
long the interval. So a period of growth ends with an answer, never by time alone.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Literal

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.errors import ModelError
from rebalance_model.observe.state.broker import BrokerView
from rebalance_model.observe.state.client import ClientView, ProxyView
from rebalance_model.observe.state.hook_queue_view import Reread
from rebalance_model.observe.state.incident import IncidentKey, IncidentState, LostState, Pending
from rebalance_model.observe.state.pops import PolledReturns, Pops
from rebalance_model.observe.state.queue import QueueState, Route, RouteSplit
from rebalance_model.observe.state.source import Loss, Sequence, Silence


class Move(msgspec.Struct, array_like=True):
    """One queue within an open rebalance."""

    from_client: str | None
    """The owner before the rebalance; None: it never had one."""
    to_client: str | None
    """The owner now."""
    polled_sign: int | None
    """When `from_client` last locked or pulled it, as its answers showed."""
    hook_sign: int | None = None
    """When it last locked, pulled or committed it, or when it unlocked it, by the broker's hook."""
    begun_at: int | None = None
    """When `to_client` was granted the lock or (concurrent) first pulled."""
    begun_is_exact: bool = False
    """True if the broker's hook saw that; an answer may show a later lock or pull."""
    commit: int | None = None
    """The last commit in an answer before `from_client` lost it."""
    reread: tuple[int, int | None, int | None] = (0, 0, 0)
    """The messages that holders in between have read again: at least, likely, at most; None: unknown."""


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """An event that makes a group rebalance."""

    time: int
    """Epoch milliseconds."""
    code: str
    subject: str
    client_id: str | None
    unseen: bool = False
    """True if no member was there to see it, and to rebalance."""


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
    """A queue that did not have its expected owner at the last check of all: while that lasts, no other is checked."""


class Retries(msgspec.Struct, array_like=True):
    """A run of messages that come back one after the other; times are epoch milliseconds."""

    commits: dict[MessageQueue, int]
    """By queue of the retry topic, the highest commit that was counted."""
    since: int = 0
    """When the first one of the run was consumed again; 0: none was."""
    last: int = 0
    """When the last one was."""
    count: int = 0
    """The number of events in the run, the first one included."""
    consumed_before: int = 0
    """The sum of the commits of the group's own topics when the run began."""
    is_much: bool = False
    """True if they were many beside those of the topics, in this run."""


class DeadLetters(msgspec.Struct, array_like=True):
    """The offsets of one broker's dead-letter queue, and what was added to it in the present period of growth."""

    asked: int
    """When the request was sent that the last answer belongs to, epoch milliseconds."""
    time: int
    """When the last answer came."""
    min_offset: int
    max_offset: int
    added: int = 0
    """The messages that were added in the period; 0: none, or there is no period."""
    first_offset: int = 0
    """The offset of the first of them; if the topic was deleted since, where it began again."""
    added_after: int = 0
    """When the offset was last requested before the first of them was seen."""
    last_added_at: int = 0
    """When an answer last showed more than the one before."""


def added(by_broker: dict[str, DeadLetters], clear_after: int) -> dict[str, DeadLetters]:
    """Return the dead letters of each broker that got some in the present period; empty if there is none.

    The period is over when every one of these brokers has answered, more than ``clear_after`` (ms) after the last
    addition to any of them, that it has no more.
    """
    recent = {broker: one for broker, one in by_broker.items() if one.added}
    if not recent:
        return recent
    last_added_at = max(one.last_added_at for one in recent.values())
    confirmed = min(one.time for one in recent.values())
    return {} if confirmed - last_added_at > clear_after else recent


STATE_VERSION = 6
PUSH, PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"
CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"


class Rounds(msgspec.Struct, array_like=True):
    """The progress of asking the members in turn; times are when they were asked."""

    after: int = 0
    """A member has been asked in the present round if it was asked later than that."""
    asked_count: int = 0
    """The number of members that have been asked, with an answer or without."""
    known_at: int = 0
    """In the last complete round every member answered, none asked before that time; 0: not every member did."""


class LastGroupRow(msgspec.Struct, array_like=True, frozen=True):
    """The values in the last GroupSnapshot: another row is written when one of them changes."""

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
    proxied_clients: tuple[str, ...] | None = None


class InvariantError(ModelError, AssertionError):
    """The state contradicts itself: an internal error."""


class GroupState(msgspec.Struct):
    """The state of one consumer group of one cluster."""

    cluster: str
    group: str
    version: int = STATE_VERSION
    collector: str = ""
    """The collector that is, or was last, followed; empty: only hooks have reported the group."""
    polled_at: int = 0
    """When its last event of the group came."""
    sequences: dict[str, Sequence] = {}
    last_seen: int = 0
    """When the last event of the group came."""
    covered_since: int = 0
    """Nothing is missing from the followed source since then."""
    orderly: bool | None = None
    views: dict[str, BrokerView] = {}
    members: tuple[str, ...] = ()
    clients: dict[str, ClientView] = {}
    routes: dict[str, Route] = {}
    queues: dict[MessageQueue, QueueState] = {}
    episode: Episode | None = None
    incidents: dict[IncidentKey, IncidentState] = {}
    pending: dict[IncidentKey, Pending] = {}
    """Conditions that hold, but not for long enough."""
    unsettled: dict[str, int] = {}
    """The number of open and pending incidents, by subject."""
    next_check: int = 0
    """When everything has to be judged again, because time alone may have changed it; 0: at no known time."""
    last_row: LastGroupRow | None = None
    next_snapshot: int = 0
    rows: int = 0
    """The number of its rows: the seq of the last effect."""
    corrections: tuple[str, ...] = ()
    """The corrections by polls since the last GroupSnapshot."""
    strategy: str = ""
    """The strategy that names the expected owners (AllocateMessageQueueStrategy.getName); empty: unknown."""
    strategy_basis: Literal["DECLARED", "CONFIGURED", "INFERRED", ""] = ""
    inferred: str = ""
    """The only strategy that explained the observed owners, if none is known otherwise."""
    tried_at: int = 0
    """`owner_changed_at` at the last attempt to infer the strategy."""
    rounds: Rounds = msgspec.field(default_factory=Rounds)
    expected_at: int = 0
    """When an expected owner last changed."""
    owner_changed_at: int = 0
    """When a queue last got an owner."""
    members_since: int = 0
    """Since when there has been a member; epoch milliseconds."""
    shares: dict[str, int] = {}
    """The number of queues of each member, without retry queues; members without any are left out."""
    causes: tuple[Cause, ...] = ()
    """The recent causes of rebalances, as many as `causes` keeps."""
    causes_since: int = 0
    """Since when causes have been counted."""
    causes_counted: int = 0
    """The number of causes since then."""
    no_members_since: int = 0
    """When its last member left; 0: it has members, or never had any."""
    silent: dict[str, Silence] = {}
    """Sources that are silent or late."""
    lost_at: int = 0
    """When missing answers of the followed collector were last detected; 0: never."""
    losses: dict[str, Loss] = {}
    """By source, its last report of events that it could not send."""
    message_model: str = ""
    """The message model that most members declare, or brokers report while none does; empty: not known. The last one
    stays while the group has no members."""
    advanced_at: int = 0
    """When an answer (GET_CONSUME_STATS) last showed an advance of a queue's commit; 0: never."""
    reread: dict[str, dict[MessageQueue, Reread]] = {}
    """By rebalance, the messages that were read again because of it; see `duplicate_consumption`."""
    dead_letters: dict[str, DeadLetters] = {}
    """By broker, the messages that have used up their attempts; a broker that was never asked for them is left out."""
    subscribed: tuple[str, ...] = ()
    """The topics that members subscribe, or did when there last were any; without retry topics."""
    left: dict[str, int] = {}
    """Topics that members no longer subscribe, and since when; without those that have no queue any more."""
    consume_type: str = ""
    """The consume type that most members declare; empty: none ever did. The last one stays while the group has no
    members."""
    without_route: dict[str, int] = {}
    """The subscribed topics without a route, and since when the name server has answered so (code 17), by the time of
    the request."""
    route_splits: tuple[RouteSplit, ...] = ()
    """The topics of which members have different routes, as far as was last known."""
    poppers: tuple[str, ...] = ()
    """The clients whose last answer shows queues that they pop; one of them may have left since."""
    pops: Pops | None = None
    """The view by hooks of its consumers that pop; None: none of their calls was seen."""
    proxies: dict[str, ProxyView] = {}
    """The group's clients as listed by the proxies that the collector asks, by address."""
    proxied_left_at: int = 0
    """When the last client left that a proxy listed; 0: one is listed, or none ever was."""
    returns: PolledReturns | None = None
    """The view by polls of messages that come back; None: the group has no retry topic of a popped topic."""
    lost: LostState | None = None
    """The loss of its state, after which it began again; None: it never was lost."""
    retries: Retries | None = None
    """The messages that come back by its retry topic; None: no commit of it was seen."""
    opened: dict[IncidentKey, int] = {}
    """When incidents that may come back had been opened, in the order of their ends."""
    deleted: tuple[str, ...] = ()
    """The topics of `without_route` that had a route, and were deleted while members subscribed them."""

    @property
    def is_polled(self) -> bool:
        """Return whether a collector is followed, and is not silent."""
        return bool(self.collector) and self.collector not in self.silent

    @property
    def key(self) -> str:
        """Return the group's key in the log and in the state store."""
        return f"{self.cluster}/{self.group}"

    def validate(self) -> None:
        """Check the invariants that hold after every step.

        Raises:
            InvariantError: names the group and the violated invariant.
        """
        for violated in chain(self._wrong_members(), self._wrong_queues(), self._wrong_incidents()):
            msg = f"{self.key}: {violated}"
            raise InvariantError(msg)

    # Generators, because this runs after every event of a test: a sentence is only made where an invariant is violated.

    def _wrong_members(self) -> Iterator[str]:
        ids: set[str] = set()
        for broker, view in self.views.items():
            table = view.info.channel_info_table
            if any(channel != info.channel for channel, info in table.items()):
                yield f"{broker} has a member under another's channel"
            ids.update([info.client_id for info in table.values()])
            ids.update(view.expected_back_until)
            if view.hook is not None:
                ids.update(view.hook.expected_back_until)
        if ids != set(self.members):
            yield "the members are not those of the brokers' views"
        if not ids <= self.clients.keys():
            yield "a member has no client view"

    def _wrong_queues(self) -> Iterator[str]:
        shares: dict[str, int] = {}
        for mq, queue in self.queues.items():
            if queue.owner is not None:
                if queue.owner not in self.members:
                    yield f"the owner of {mq} is no member"
                if not mq.is_retry:
                    shares[queue.owner] = shares.get(queue.owner, 0) + 1
            if queue.stalled_ms < 0:
                yield f"{mq} has stalled for a negative time"
            if any(c not in self.clients or mq not in self.clients[c].queues for c in queue.claimants):
                yield f"{mq} is claimed by a client that does not show it"
        for client_id, client in self.clients.items():
            if any(client_id not in self.queues[mq].claimants for mq in client.queues):
                yield f"a queue of {client_id} lacks it as a claimant"
        if shares != self.shares:
            yield "the members' shares are not counted right"

    def _wrong_incidents(self) -> Iterator[str]:
        subjects: dict[str, int] = {}
        for key, incident in self.incidents.items():
            if key != incident.key:
                yield f"incident {key} is filed wrongly"
            if key in self.pending:
                yield f"incident {key} is open and pending"
        for key in chain(self.incidents, self.pending):
            subjects[key.subject] = subjects.get(key.subject, 0) + 1
        if subjects != self.unsettled:
            yield "the subjects of incidents are not counted right"
        if self.episode is not None and self.episode.last_change < self.episode.start_time:
            yield "a rebalance changed before it began"
