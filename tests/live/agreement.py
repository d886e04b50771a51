"""Compare the state rebuilt from events with the answers of real brokers and clients, and name each difference.

An answer agrees if the rebuilt state had this value at some moment between the request and the answer, or up to a
tolerance later. An event is reported when its call is done, so the state lags by the events in flight: half a second,
plus the time for which the machine delayed the broker's threads, measured by the delay of its hook's ticks. Any other
difference is one of the kinds below, whose duration is limited, or it is unexplained. The reasons for these kinds, by
RocketMQ's own classes:

- No call reaches a broker when a channel closes (ClientHousekeepingService), or when its scan drops a member.
- A concurrent client takes a queue without asking the former owner, and releases one without a call
  (RebalancePushImpl.removeUnnecessaryMessageQueue), each at its own next rebalance, at most 20 s later. So two clients,
  or none, may hold a queue: by events alone the owner is the client that took it last.
- A broker that has just started knows only the members that have come back, and returns these
  (GET_CONSUMER_LIST_BY_GROUP): the first one takes every queue until the others are back, at most 30 s later. The
  broker has lost its locks, while the clients still rely on theirs.
- A rebalance requests the members from any of the topic's brokers: one that is down does not answer, and nothing
  changes (RebalanceImpl.rebalanceByTopic). One that is back knows only a part of its members, and only a part of the
  clients has a route to it, so clients divide different lists. Until all have both, at most 30 s later, time does not
  count.
- A client releases the queues of a broker without a route, and cannot report it to the broker.
- Of two first heartbeats that a broker handles at once, the newer subscription can lose (ConsumerGroupInfo
  .updateSubscription: both find none, and putIfAbsent keeps the one that is first) until its client's next heartbeat.
- A client that was frozen still has its process queues when it continues, until it requests the locks, or rebalances.

A delayed unlock of an ordered queue (unlockDelay) is not such a kind: clients of 5.2 and later unlock at once.
"""

import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe import events
from rebalance_model.observe.policy import Policy

IN_FLIGHT = 500
AROUND = 3_000
"""Ticks within this time show by how much the broker's threads were delayed."""
HAND_OVER = 1_000
"""A client creates its process queue after it was granted the lock or queried the offset, and drops it before it
unlocks."""
PULL_SUM = 1_000
"""A commit that came with a pull is reported when its sum of pulls ends."""
REBALANCE = 25_000
"""A client rebalances every 20 s, notified or not (RebalanceService)."""
RETURN = 30_000
"""The interval of a client's route queries and heartbeats: the time to leave a broker, or to become a member again."""
PULL_SILENCE = 30_000
"""A pull by a client other than the known owner shows a new owner if the known one has not pulled for this time."""
PULL_WAIT = 20_000
"""The maximum time between pulls of a queue without new messages (brokerSuspendMaxTimeMillis 15 s, a timer of 5 s)."""
CHANNEL_EXPIRED, SCAN, TICK = 120_000, 10_000, 1_500
APART = 6_000
"""Differences of one kind within this time (three rounds of requests) are one lasting difference."""

CLOSED = "a closed channel that no later 38 has reported"
SCANNED = "a member past 120 s that the broker's scan has already removed"
GIVEN_UP = "a concurrent queue that its owner released and no client has taken yet"
TWO_HOLD = "a concurrent queue that another client took before its owner rebalanced"
TAKEN_BACK = "a concurrent queue that another client took and released while its owner never released it"
"""A broker that has just started knows one member, which takes all queues until the others are back."""
AWAY = "a queue of a broker that is or was down, released for lack of a route"
UNUSABLE = "a process queue that its client cannot use: dropped, or its lock has expired"
RELOCKED = "an ordered queue that its client locked again after it had released it"
"""A consume thread requests the lock again 100 ms after it found none (tryLockLaterAndReconsume), whoever owns the
queue by then; no client renews that lock."""
DIED = "a commit in the last second of a broker: its sum of pulls was never reported"
LOST = "a lock that its owner relies on and the broker lost when it started"
UNCOMMITTED = "an offset that no client has committed since the broker started"
RACED = "a subscription whose newest version lost against another client's first heartbeat at the same time"
_NOT_COMPARED = events.TopicRoute | events.ConsumeTimeSpan | events.TopicStats
"""Answers about what no call of a client shows to a hook."""
LONGEST = {
    CLOSED: CHANNEL_EXPIRED + SCAN + TICK,
    SCANNED: SCAN + TICK,
    GIVEN_UP: REBALANCE,
    TWO_HOLD: REBALANCE,
    TAKEN_BACK: PULL_SILENCE + PULL_WAIT,
    UNUSABLE: REBALANCE,
    RELOCKED: Policy().broker_lock_max_live_time,
    LOST: Policy().client_lock_max_live_time,
    RACED: RETURN + IN_FLIGHT,
}
"""How long a difference may last, from the first answer that shows it to the last; see `Known.hindered`."""


@dataclass(frozen=True)
class Difference:
    """An answer that differs from the rebuilt state."""

    name: str | None
    """Its kind; None: unexplained."""
    group: str
    key: tuple
    asked: int
    time: int
    answered: object
    values: tuple


@dataclass
class Verdict:
    """The result of a comparison."""

    knowledge: "Known"
    compared: Counter = field(default_factory=Counter)
    unanswered: Counter = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self):
        return [one for one in self.differences if one.name is None]

    def spells(self):
        """Return name, duration (ms) and first answer of each lasting difference."""
        spells = defaultdict(list)
        for difference in self.differences:
            same = spells[difference.name, difference.group, difference.key]
            if same and difference.asked - same[-1][-1].time <= APART:
                same[-1].append(difference)
            else:
                same.append([difference])
        return [(key[0], run[-1].time - run[0].asked, run[0]) for key, runs in spells.items() for run in runs]

    def too_long(self):
        """Return the lasting differences that exceed the limit of their kind."""
        return [
            (name, ms, one)
            for name, ms, one in self.spells()
            if ms - self.knowledge.hindered(one.asked, one.asked + ms) > LONGEST.get(name, ms)
        ]


class Known:
    """Facts from the events and the faults, independent of the rebuilt state."""

    def __init__(self, run):
        self.channels = defaultdict(list)
        """The times of all calls on a channel, by (broker, group, channel)."""
        self.beats = defaultdict(list)
        """The times of heartbeats, by the same key."""
        self.subscribed = defaultdict(list)
        """The time and the channel of each heartbeat that subscribes a topic, by (broker, group, topic, version)."""
        self.unregistered = set()
        """The channels that were unregistered."""
        self.unlocks = defaultdict(list)
        """The times at which a client released a lock, by (group, client, queue)."""
        self.lists = defaultdict(list)
        """(asked, time) of the answers to 38, by (broker, group)."""
        self.commits = defaultdict(list)
        """The times of commits, by (broker, group, topic, queue id)."""
        self.starts = defaultdict(list)
        """The times at which a broker started."""
        self.ticks = defaultdict(list)
        """The times of its hook's ticks, one per second if not delayed."""
        self.end = run.hook[-1].time
        for event in run.hook:
            self._take(event)
        self.claims = defaultdict(list)
        """(asked, answered, queues) of each answer of a client, by (group, client)."""
        for event in run.poll:
            if isinstance(event, events.ConsumerRunningInfo) and event.error is None:
                queues = {row.mq for row in event.queues if not row.dropped}
                self.claims[event.group, event.client_id].append((event.asked, event.time, queues))
        self.down = _spans((one.broker, one) for one in run.faults if one.broker)
        self.frozen = _spans((one.client_id, one) for one in run.faults if one.kind == "freeze")

    def in_flight(self, broker, time):
        """Return how long calls to a broker around a time may have taken to reach its hook; milliseconds."""
        ticks = self.ticks[broker]
        near = ticks[max(0, bisect_right(ticks, time - AROUND) - 1) : bisect_right(ticks, time + AROUND) + 1]
        return IN_FLIGHT + max((other - one - 1_000 for one, other in pairwise(near)), default=0)

    def hindered(self, begin, end):
        """Return for how long between two moments a rebalance may have found no broker, or an incomplete list."""
        hindered, until = 0, begin
        for down, up in sorted(span for spans in self.down.values() for span in spans):
            one, other = max(down, until), min(up + RETURN, end)
            if one < other:
                hindered, until = hindered + other - one, other
        return hindered

    def _take(self, event):
        if isinstance(event, events.BrokerStatus):
            self.starts[event.broker].append(event.time)
        elif isinstance(event, events.Tick):
            self.ticks[event.broker].append(event.time)
        if not isinstance(event, events.GroupEvent):
            return
        place = event.broker, event.group
        self.channels[*place, event.channel].append(event.time)
        if isinstance(event, events.HeartBeat):
            self._take_heartbeat(place, event)
        elif isinstance(event, events.UnregisterClient):
            self.unregistered.add((*place, event.channel))
        elif isinstance(event, events.UnlockBatchMq):
            for mq in event.queues:
                self.unlocks[event.group, event.client_id, mq].append(event.time)
        elif isinstance(event, events.GetConsumerListByGroup):
            self.lists[place].append((event.asked, event.time))
        elif isinstance(event, events.UpdateConsumerOffset) or (
            isinstance(event, events.PullMessage) and event.commit_offset >= 0
        ):
            self.commits[*place, event.topic, event.queue_id].append(event.time)

    def _take_heartbeat(self, place, event):
        self.beats[*place, event.channel].append(event.time)
        for one in event.subscriptions:
            self.subscribed[*place, one.topic, one.sub_version].append((event.time, event.channel))


def _spans(faults):
    """Return the periods in which each broker was down or client frozen; a fault without a cure has no end."""
    spans = defaultdict(list)
    for name, fault in faults:
        if fault.cure:
            spans[name][-1] = (spans[name][-1][0], fault.done)
        else:
            spans[name].append((fault.time, INT64_MAX))
    return spans


class Judge:
    """Compares one run's answers with the history of one rebuilt state."""

    def __init__(self, run, history):
        self._history = history
        self._known = Known(run)
        self.verdict = Verdict(self._known)
        for event in run.poll:
            if not isinstance(event, events.Answer) or isinstance(event, _NOT_COMPARED):
                continue
            if event.error is not None:
                self.verdict.unanswered[type(event).__name__] += 1
            elif isinstance(event, events.ConsumerConnection):
                self._connection(event)
            elif isinstance(event, events.ConsumeStats):
                self._stats(event)
            else:
                self._running_info(event)
        for answer in run.lists:
            self._list(answer)

    def _connection(self, event):
        broker = event.broker
        members = {("member", broker, one.channel): one.client_id for one in event.connections}
        self._compare("members (203)", event, "member", members, self._closed)
        answer = {
            ("subscription", broker, one.topic): (one.sub_string, one.expression_type, one.sub_version)
            for one in event.subscriptions
        }
        self._compare("subscriptions (203)", event, "subscription", answer, self._subscribed)
        modes = (event.consume_type, event.message_model, event.consume_from_where)
        self._compare("modes (203)", event, "modes", {("modes", broker): modes} if members else {}, self._all_closed)

    def _list(self, answer):
        counts = Counter(answer.consumer_ids)
        listed = {("connections", answer.broker, client_id): count for client_id, count in counts.items()}
        self._compare("members (38)", answer, "connections", listed, lambda *_: None)

    def _compare(self, what, event, kind, answered, explain):
        series = self._history.series[event.group]
        for key in answered.keys() | self._history.keys(event.group, kind, event.broker):
            values = series[key].during(event.asked, event.time + self._known.in_flight(event.broker, event.time))
            value = answered.get(key)
            if value is None and values == [None]:
                continue
            self._note(what, event, key, value, values, value in values, explain)

    def _note(self, what, event, key, value, values, agrees, explain):
        self.verdict.compared[what] += 1
        if not agrees:
            name = explain(event, key, value)
            self.verdict.differences.append(
                Difference(name, event.group, key, event.asked, event.time, value, tuple(values))
            )

    def _closed(self, event, key, value):
        """Explain a channel that the broker no longer has: no later call on it, and the state drops it in time."""
        _, broker, channel = key
        place = broker, event.group
        calls = self._known.channels[*place, channel]
        if (
            value is not None
            or not calls
            or calls[-1] > event.time + IN_FLIGHT
            or (*place, channel) in self._known.unregistered
        ):
            return None
        last = self._known.beats[*place, channel][-1]
        series = self._history.series[event.group][key]
        gone = next((t for t, v in series.items() if t > event.asked and v is None), None)
        expired = last + CHANNEL_EXPIRED + SCAN + TICK
        listed = next((time for asked, time in self._known.lists[place] if asked > event.time), expired)
        if (gone if gone is not None else self._known.end) > min(listed, expired):
            return None
        return SCANNED if event.asked - last > CHANNEL_EXPIRED else CLOSED

    def _subscribed(self, event, key, value):
        """Explain an older version: the newer one came at the same time, on another channel, and once since the start.

        A client's next heartbeat replaces an older version.
        """
        _, broker, topic = key
        newest = self._history.series[event.group][key].at(event.time)
        if value is None or newest is None or value[:2] != newest[:2] or value[2] >= newest[2]:
            return self._all_closed(event, key, value)
        starts = self._known.starts[broker]
        started = starts[bisect_right(starts, event.asked) - 1]
        older, newer = (
            [beat for beat in self._known.subscribed[broker, event.group, topic, version] if beat[0] >= started]
            for version in (value[2], newest[2])
        )
        came = [beat for beat in newer if beat[0] <= event.asked]
        if len(came) != 1:
            return None
        [(time, channel)] = came
        return RACED if any(abs(one - time) <= IN_FLIGHT and channel != other for one, other in older) else None

    def _all_closed(self, event, key, value):
        """Explain subscriptions and modes of a group whose only remaining members are closed channels."""
        members = self._history.keys(event.group, "member", event.broker)
        series = self._history.series[event.group]
        for moment in (event.asked, event.time):
            living = [key for key in members if series[key].at(moment) is not None]
            if value is None and all(self._closed(event, key, None) for key in living):
                return CLOSED
        return None

    def _stats(self, event):
        answered = {("commit", row.mq.broker, row.mq): row.consumer_offset for row in event.queues}
        series = self._history.series[event.group]
        for key in answered.keys() | self._history.keys(event.group, "commit", event.broker):
            # A sum of pulls reports only the last commit; the commits of two clients that pull one queue alternate.
            slack = PULL_SUM + self._known.in_flight(event.broker, event.time)
            values = series[key].during(event.asked - slack, event.time + slack)
            offsets = [value for value in values if value is not None]
            value = answered.get(key)
            if value is None and not offsets:
                continue
            nothing = None in values and value is not None and value <= 0  # 208 reports 0 if there is none
            least = 0 if None in values else min(offsets, default=0)  # the first sum, too, reports only the last commit
            between = value is not None and bool(offsets) and least <= value <= max(offsets)
            agrees = nothing or between or value in values
            self._note("offsets (208)", event, key, value, values, agrees, self._uncommitted)

    def _uncommitted(self, event, key, value):
        _, broker, mq = key
        ticks = self._known.ticks[broker]
        following = ticks[bisect_right(ticks, event.asked) :][:1]
        if value is not None and not (following and following[0] - event.time <= PULL_SUM + 2 * IN_FLIGHT):
            return DIED
        starts = self._known.starts[broker]
        started = starts[bisect_right(starts, event.asked) - 1]
        commits = self._known.commits[broker, event.group, mq.topic, mq.queue_id]
        since = [time for time in commits if started <= time <= event.asked]
        return UNCOMMITTED if started > starts[0] and value is not None and not since else None

    def _running_info(self, event):
        rows = {row.mq: row for row in event.queues}
        series = self._history.series[event.group]
        client_id = event.client_id
        owned = {
            key[2]
            for key in self._history.keys(event.group, "owner")
            if client_id in series[key].during(event.asked - HAND_OVER, event.time + HAND_OVER)
        }
        for mq in rows.keys() | owned:
            key = ("owner", mq.broker, mq)
            owners = series[key].during(event.asked - HAND_OVER, event.time + HAND_OVER)
            agrees = client_id in owners if mq in rows else set(owners) != {client_id}
            explain = self._taken if mq in rows else self._given_up
            self._note("owners (307)", event, key, client_id if mq in rows else None, owners, agrees, explain)
        for mq, row in rows.items():
            if event.orderly and _holds(event, row):
                self._lock(event, ("lock", mq.broker, mq), row)

    def _lock(self, event, key, row):
        """Compare a lock: the client stamps it when the answer arrives, or when it then creates the process queue."""
        until = event.time + self._known.in_flight(key[1], event.time)
        held = self._history.series[event.group][key].during(event.asked - HAND_OVER, until)
        agrees = any(lock and lock[0] == event.client_id and abs(row.lock_time - lock[1]) <= HAND_OVER for lock in held)
        self._note("locks (307)", event, key, (event.client_id, row.lock_time), held, agrees, self._lost)

    def _lost(self, event, key, value):
        """Explain a lock from before the broker's last start; another client may have it by now."""
        return LOST if any(value[1] < start <= event.time for start in self._known.starts[key[1]]) else None

    def _taken(self, event, key, value):
        """Explain a queue that the client still has, though it released it or another client took it."""
        row = next(row for row in event.queues if row.mq == key[2])
        if not _holds(event, row):
            return UNUSABLE
        if event.orderly:
            return self._lost(event, key, (value, row.lock_time))
        series = self._history.series[event.group][key]
        left = series.left(value, event.time)
        if left is None:
            return None
        taken = series.since(event.time) + HAND_OVER
        claims = self._known.claims[event.group, series.at(event.time)]
        gone = [asked for asked, _, queues in claims if taken < asked < event.asked and key[2] not in queues]
        if gone and event.asked - gone[0] <= PULL_SILENCE + PULL_WAIT:
            return TAKEN_BACK
        thawed = max((end for begin, end in self._known.frozen[value] if end <= event.asked), default=0)
        since = max(left, thawed)
        return TWO_HOLD if event.asked - since - self._known.hindered(since, event.asked) <= REBALANCE else None

    def _given_up(self, event, key, value):
        """Explain a queue that the client has released, though no event shows that."""
        for begin, end in self._known.down[key[1]]:
            if begin <= event.time and event.asked <= end + RETURN + REBALANCE:
                return AWAY
        if not event.orderly:
            return GIVEN_UP
        lock = self._history.series[event.group]["lock", key[1], key[2]].at(event.time)
        unlocked = self._known.unlocks[event.group, event.client_id, key[2]]
        return RELOCKED if lock and any(0 < lock[1] - time <= REBALANCE for time in unlocked) else None


def _holds(event, row):
    """Return whether a client has a queue by its own answer; an ordered one needs a valid lock."""
    if row is None or row.dropped:
        return False
    return not event.orderly or (row.locked and event.asked - row.lock_time <= Policy().client_lock_max_live_time)


def table(run, verdict):
    """Return the results as text."""
    rounds = Counter(event.broker for event in run.poll if isinstance(event, events.BrokerStatus))
    took = [event.time - event.asked for event in run.poll if isinstance(event, events.Answer) and not event.error]
    half, most = (statistics.quantiles(took, n=100)[place] for place in (49, 98))
    seconds = (run.hook[-1].time - run.hook[0].time) / 1000
    lines = [
        f"{max(rounds.values())} rounds of requests in {seconds:.0f} s, answered in {half:.0f} ms (99 %: {most:.0f})"
    ]
    lines += [f"{count:>8} {what}: values compared" for what, count in sorted(verdict.compared.items())]
    lines += [f"{count:>8} {what} without an answer" for what, count in sorted(verdict.unanswered.items())]
    longest = defaultdict(int)
    for name, ms, _ in verdict.spells():
        longest[name] = max(longest[name], ms)
    counts = Counter(one.name for one in verdict.differences)
    lines += [
        f"{counts[name]:>8} {name} (longest {longest[name] / 1000:.1f} s)" for name in sorted(filter(None, counts))
    ]
    return "\n".join([*lines, f"{len(verdict.unexplained):>8} unexplained"])
