"""The state rebuilt from telemetry at every moment: the values after each event, valid until the next change.

Values are kept by key: the member on a channel, the number of a client's connections, the expression of a subscription,
the group's modes, a queue's lock (each by one broker's view), a queue's commit and owner, the members over all brokers.
"""

from bisect import bisect_right
from collections import Counter, defaultdict

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import GroupEvent, Tick
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy


class Series:
    """The values of one key, each with the time from which it was valid; None before the first."""

    def __init__(self):
        self.times = []
        self.values = []

    def put(self, time, value):
        self.times.append(time)
        self.values.append(value)

    def items(self):
        """Return each time with the value that was valid from then on."""
        return zip(self.times, self.values, strict=True)

    def at(self, time):
        """Return the value at a time."""
        place = bisect_right(self.times, time)
        return self.values[place - 1] if place else None

    def since(self, time):
        """Return the time from which the value at a time was valid."""
        return self.times[bisect_right(self.times, time) - 1]

    def during(self, begin, end):
        """Return the value just before begin, since clocks show whole milliseconds, and all values until end."""
        first, last = bisect_right(self.times, begin - 1), bisect_right(self.times, end)
        return [self.at(begin - 1), *self.values[first:last]]

    def left(self, value, before):
        """Return when this value was last replaced, at or before a time; None: never."""
        for place in range(bisect_right(self.times, before) - 1, 0, -1):
            if self.values[place - 1] == value:
                return self.times[place]
        return None


class History:
    """The values rebuilt from events, by group and key."""

    def __init__(self, events, policy=None):
        self.series = defaultdict(lambda: defaultdict(Series))
        self.corrections = []
        """Time, group and description of each correction."""
        self._shard = Shard(None, GroupsInMemory(), policy or Policy())
        self._last = defaultdict(dict)
        self._fold, self._shard.timeline.fold = self._shard.timeline.fold, self._fold_and_look
        for event in events:
            self._note_corrections(self._shard.push(event, event.time))
        self._note_corrections(self._shard.finish())
        self.states = {state.group: state for state in self._shard.timeline.groups()}

    def _note_corrections(self, effects):
        self.corrections += [
            (effect.time, effect.group, what)
            for effect in effects
            if isinstance(effect, GroupSnapshot)
            for what in effect.corrections
        ]

    def _fold_and_look(self, event):
        """Fold an event of the timeline, and record the values after it."""
        effects = self._fold(event)
        if isinstance(event, GroupEvent):
            self._look(event.time, event.group, self._shard.timeline.group(event.cluster, event.group))
        elif isinstance(event, Tick) or not effects:
            for state in list(self._shard.timeline.groups()):
                self._look(event.time, state.group, state)
        return effects

    def keys(self, group, kind, *place):
        """Return the keys of a kind, by one broker's view or of one topic."""
        head = (kind, *place)
        return {key for key in self.series[group] if key[: len(head)] == head}

    def _look(self, time, group, state):
        state.validate()
        now = dict(_values(state))
        before = self._last[group]
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key):
                self.series[group][key].put(time, now.get(key))
        self._last[group] = now


def _values(state):
    yield ("members", ""), state.members
    for broker, view in state.views.items():
        info = view.info
        for channel, member in info.channel_info_table.items():
            yield ("member", broker, channel), member.client_id
        for client_id, count in Counter(info.client_ids()).items():
            yield ("connections", broker, client_id), count
        for topic, one in info.subscription_table.items():
            yield ("subscription", broker, topic), (one.sub_string, one.expression_type, one.sub_version)
        if info.channel_info_table:
            yield ("modes", broker), (info.consume_type, info.message_model, info.consume_from_where)
        for mq, lock in view.hook.locks.items() if view.hook is not None else ():
            yield ("lock", broker, mq), (lock.client_id, lock.last_update_timestamp)
    for mq, queue in state.queues.items():
        if queue.hook_view is not None and queue.hook_view.commit_offset >= 0:
            yield ("commit", mq.broker, mq), queue.hook_view.commit_offset
        if queue.owner is not None:
            yield ("owner", mq.broker, mq), queue.owner
