"""The groups about which each broker is asked: those that it lists (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201).

A group that it has left out is asked about for `GROUP_FORGOTTEN_MS` more, and for as long as it has members there: one
answer may lack it, and clients may outlive the group on their broker. So is one that it never had, if another broker
lists it and the broker has queues of its topics, as a new broker on which nobody has created the group.

Groups with members come first in each round; the others, of which anybody may create any number, take turns in the time
that is left: first those that wait longest.
"""

from collections.abc import Collection, Iterable, Mapping

from streaming.base.limits import GROUP_FORGOTTEN_MS, SILENT_BROKER_GROUPS
from streaming.collect.known_brokers import Place


class KnownGroups:
    """The groups of each broker, as last known."""

    def __init__(self) -> None:
        self._known: dict[Place, set[str]] = {}
        self._unlisted: dict[Place, dict[str, int]] = {}
        """By broker, the groups that it no longer lists, and when each was last listed or had members there."""
        self._listed: dict[Place, Mapping[str, bool]] = {}
        """By broker, the groups that it lists, each with whether it is FIFO for clients that pop."""
        self._routed: dict[Place, dict[str, int]] = {}
        """By broker, the groups with a topic whose route has it, and when such a route was last seen."""
        self._waiting: dict[Place, dict[str, int]] = {}
        """By broker and group, since how many turns of groups it waits for its own."""
        self._turns = 0
        """How many turns there were."""
        self._with_members: dict[Place, set[str]] = {}
        """By broker, the groups that had members there when they were last asked about."""
        self._asked: dict[Place, set[str]] = {}
        """By broker, the groups about which it was ever asked."""

    def of(self, place: Place) -> set[str]:
        """Return the groups of a broker, as they were when it last answered."""
        return self._known.get(place, set())

    def update(self, place: Place, listed: Mapping[str, bool], now: int) -> set[str]:
        """Take what a broker lists at a time, by a clock that only rises (ms); return the groups to ask it about.

        Args:
            place: the broker.
            listed: its groups, each with whether it is FIFO for clients that pop.
            now: the time.
        """
        before = self._unlisted.get(place, {})
        left_out = (self._listed.get(place, {}).keys() | before.keys()) - listed.keys()
        since = {name: before.get(name, now) for name in left_out}
        kept = [(name, at) for name, at in sorted(since.items()) if now - at <= GROUP_FORGOTTEN_MS]
        self._unlisted[place] = dict(kept[:SILENT_BROKER_GROUPS])
        self._listed[place] = listed
        routed = {name: at for name, at in self._routed.get(place, {}).items() if now - at <= GROUP_FORGOTTEN_MS}
        self._routed[place] = routed
        names = self._known[place] = listed.keys() | self._unlisted[place].keys() | routed.keys()
        self._waiting[place] = {name: at for name, at in self._waiting.get(place, {}).items() if name in names}
        for groups in (self._with_members, self._asked):
            groups[place] = groups.get(place, set()) & names
        return names

    def in_turn(self, place: Place, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return groups of a broker in the order of their turns: those with members, and the others."""
        waiting = self._waiting.setdefault(place, {})
        members = self._with_members.get(place, set())
        turns = sorted(names, key=lambda name: (waiting.setdefault(name, self._turns), name))
        return [name for name in turns if name in members], [name for name in turns if name not in members]

    def note_turn(self, place: Place, name: str) -> None:
        """Note that a group has its turn at a broker."""
        self._turns += 1
        self._waiting.setdefault(place, {})[name] = self._turns

    def is_new(self, place: Place, name: str) -> bool:
        """Return whether a broker was never asked about a group."""
        return name not in self._asked.get(place, ())

    def note_asked(self, place: Place, name: str, now: int, *, has_members: bool) -> None:
        """Note whether a group has members at a broker, as that has just answered."""
        self._asked.setdefault(place, set()).add(name)
        if has_members:
            self._with_members.setdefault(place, set()).add(name)
            if name in self._unlisted.get(place, {}):
                self._unlisted[place][name] = now
        else:
            self._with_members.get(place, set()).discard(name)

    def lists(self, place: Place, name: str) -> bool:
        """Return whether a broker lists a group, as it last answered."""
        return name in self._listed.get(place, {})

    def is_fifo(self, place: Place, name: str) -> bool:
        """Return whether clients that pop get the messages of a queue in order, by what the broker last listed."""
        return self._listed.get(place, {}).get(name, False)

    def note_route(self, cluster: str, name: str, brokers: Collection[str], now: int) -> None:
        """Note which brokers have queues of a group's topic; they are asked about a group that any broker lists."""
        if any(name in listed for place, listed in self._listed.items() if place[0] == cluster):
            for broker in brokers:
                self._routed.setdefault((cluster, broker), {})[name] = now

    def keep(self, places: Collection[Place]) -> None:
        """Forget the groups of all brokers but these."""
        for by_place in (
            self._known, self._unlisted, self._listed, self._routed, self._waiting, self._with_members, self._asked,
        ):  # fmt: skip
            for place in by_place.keys() - set(places):
                del by_place[place]
