"""The brokers that are polled: those that a name server has listed since the start, up to a limit.

A broker that is no longer listed may be down, which is what its polls show: so it is kept, until it has been neither
listed nor answered for `BROKER_FORGOTTEN_MS`. Anybody may register brokers at an open name server: at the limit a new
one takes the place of one that has never answered and is not listed now.

A broker is silent if it answered nothing when it was last asked, and until it answers anything. Silent ones are probed
in an order in which none waits for many: first those that have answered before, the last one first; those that never
have take turns.

The groups about which a broker is asked are those that it lists (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201). A group that
it has left out is asked about for `GROUP_FORGOTTEN_MS` more, and for as long as it has members there: one answer may
lack it, and clients may outlive the group on their broker. A group that it never had is asked about, too, if another
broker lists it and the broker has queues of its topics: nobody may have created it on a new broker. Groups with members
come first in each round; the others, of which anybody may create any number, take turns in the time that is left: first
those that wait longest.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from streaming.base.limits import BROKER_FORGOTTEN_MS, BROKERS, GROUP_FORGOTTEN_MS, SILENT_BROKER_GROUPS
from streaming.collect.cluster_responses import ListedBroker

Place: TypeAlias = tuple[str, str]
"""A broker: its cluster and its name."""
OTHER_MISSES = 2
"""Failures in succession that are allowed to the broker at a name's former address, once it has answered."""


class Turns(NamedTuple):
    """The brokers of a round, each in the order in which they are asked."""

    answering: list[Place]
    new: list[Place]
    """Brokers that were never asked."""
    missed: list[Place]
    """Brokers that are silent and have answered before."""
    silent: list[Place]
    """Brokers that were asked and have never answered."""


class KnownBrokers:
    """The replicas of each broker that clients use, as last listed."""

    def __init__(self, brokers_max: int = BROKERS) -> None:
        """Know so many brokers at most."""
        self._brokers_max = brokers_max
        self.masters: dict[Place, ListedBroker | None] = {}
        """The master or the slave that acts as master, as last known; None: never known."""
        self.slaves: dict[Place, ListedBroker] = {}
        """The slaves that are asked while there is no master."""
        self.others: dict[Place, ListedBroker] = {}
        """The former address of a master whose name has got another one, while it answers: two brokers may share it."""
        self.others_missed: dict[Place, int] = {}
        """The number of times in succession that such a one did not answer which had answered before."""
        self.silent: set[Place] = set()
        """Brokers that did not answer the last time, or were never asked."""
        self.left_out = 0
        """The number of brokers of the last list that are not polled, because there are too many."""
        self._answered: dict[Place, None] = {}
        """Brokers that have ever answered; the silent one that answered last is the last."""
        self._failing: dict[Place, None] = {}
        """Brokers that did not answer; the last one asked is the last."""
        self._heard: set[Place] = set()
        self._listed: set[Place] | None = None
        """Brokers that a name server lists; None: no name server answered the last time."""
        self._here_at: dict[Place, int] = {}
        """When each was last listed, or answered."""

    def update(self, listed: Iterable[ListedBroker], now: int) -> None:
        """Take what a name server lists, at a time by a clock that only rises, milliseconds."""
        brokers = list(listed)
        self._listed = {broker.place for broker in brokers}
        self._here_at |= dict.fromkeys((*self._listed, *(self.masters.keys() - self.silent)), now)
        for place in [p for p in self.masters if now - self._here_at.setdefault(p, now) >= BROKER_FORGOTTEN_MS]:
            self._forget(place)
        replaceable = [place for place in self.masters if place not in self._answered and place not in self._listed]
        self.left_out = 0
        for broker in brokers:
            if self._has_room(broker, replaceable):
                self._add(broker)
            else:
                self.left_out += 1

    def note_unlisted(self) -> None:
        """Note that no name server has answered: it is unknown which brokers are listed."""
        self._listed = None

    def is_listed(self, place: Place) -> bool | None:
        """Return whether a name server lists the broker; None if none has answered the last time."""
        return None if self._listed is None else place in self._listed

    def in_use(self) -> list[ListedBroker]:
        """Return the replica of each broker that its clients use, and those that may share its name."""
        masters = [master for master in self.masters.values() if master is not None]
        used = (one for one in masters if one.place not in self.slaves)
        return [*used, *self.slaves.values(), *self.others.values()]

    def clusters(self) -> list[str]:
        """Return the names of their clusters."""
        return sorted({cluster for cluster, _ in self.masters})

    def replica(self, place: Place) -> ListedBroker | None:
        """Return the replica of a broker that its clients use."""
        return self.slaves.get(place) or self.masters.get(place)

    def turns(self) -> Turns:
        """Return which brokers to ask, and which to probe first."""
        silent = [place for place in self._failing if place in self.silent and place not in self._answered]
        return Turns(
            [place for place in self.masters if place not in self.silent],
            [place for place in self.masters if place in self.silent and place not in self._failing],
            [place for place in reversed(self._answered) if place in self._failing],
            silent,
        )

    def begin(self, place: Place) -> None:
        """Note that a broker is asked in a round."""
        self._heard.discard(place)

    def is_heard(self, place: Place) -> bool:
        """Return whether a broker has answered anything since it was asked in a round."""
        return place in self._heard

    def note_other(self, place: Place, *, answers: bool) -> None:
        """Note whether the broker at a former address has answered; one that never does has moved."""
        if answers:
            self.others_missed[place] = 0
            return
        missed = self.others_missed.get(place, OTHER_MISSES) + 1
        self.others_missed[place] = missed
        if missed > OTHER_MISSES:
            self.drop_other(place)

    def drop_other(self, place: Place) -> None:
        """Forget the former address of a broker."""
        self.others.pop(place, None)
        self.others_missed.pop(place, None)

    def note_answer(self, place: Place) -> None:
        """Note that a broker has answered something."""
        self._heard.add(place)
        if place in self.silent or place not in self._answered:
            self.silent.discard(place)
            self._failing.pop(place, None)
            self._answered.pop(place, None)
            if place in self.masters:
                self._answered[place] = None

    def note_silent(self, place: Place) -> bool:
        """Note that a broker has not answered; return whether it had before, or was not asked yet."""
        if place not in self.masters:
            return False
        self.silent.add(place)
        is_news = place not in self._failing
        self._failing.pop(place, None)
        self._failing[place] = None
        if is_news and place in self._answered:
            self._answered[place] = self._answered.pop(place)  # it has answered until now
        return is_news

    def _has_room(self, broker: ListedBroker, replaceable: list[Place]) -> bool:
        if broker.place in self.masters or len(self.masters) < self._brokers_max:
            return True
        if not replaceable:
            return False
        self._forget(replaceable.pop())
        return True

    def _forget(self, place: Place) -> None:
        """Forget a broker, which is new if it is listed again."""
        del self.masters[place]
        self.slaves.pop(place, None)
        self.drop_other(place)
        self._here_at.pop(place, None)
        self.silent.discard(place)
        self._failing.pop(place, None)
        self._answered.pop(place, None)

    def _add(self, broker: ListedBroker) -> None:
        place = broker.place
        if place not in self.masters:
            self.silent.add(place)
        former = self.masters.get(place)
        if broker.is_master:
            if former is not None and former.address != broker.address:
                self.others[place] = former
            self.masters[place] = broker
            self.slaves.pop(place, None)
        else:
            self.masters.setdefault(place, None)
            self.slaves[place] = broker


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
