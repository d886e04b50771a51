"""The brokers that are polled: those that a name server has listed since the start, up to a limit.

A broker that is no longer listed may be down, which is what its polls show: so it is kept, until it has been neither
listed nor answered for `BROKER_FORGOTTEN_MS`. Anybody may register brokers at an open name server: at the limit a new
one takes the place of one that has never answered and is not listed now.
"""

from collections.abc import Iterable
from typing import TypeAlias

from streaming.base.limits import BROKER_FORGOTTEN_MS, BROKERS
from streaming.collect.cluster_responses import ListedBroker

Place: TypeAlias = tuple[str, str]
"""A broker: its cluster and its name."""


class KnownBrokers:
    """The replicas of each broker that clients use, as last listed."""

    def __init__(self) -> None:
        self.masters: dict[Place, ListedBroker | None] = {}
        """The master or the slave that acts as master, as last known; None: never known."""
        self.slaves: dict[Place, ListedBroker] = {}
        """The slaves that are asked while there is no master."""
        self.silent: set[Place] = set()
        """Those that did not answer the last time, or were never asked."""
        self.left_out = 0
        """How many brokers of the last list are not polled, because there are too many."""
        self._answered: set[Place] = set()
        self._failing: set[Place] = set()
        self._listed: set[Place] | None = None
        """Those that a name server lists; None: none has answered the last time."""
        self._here_at: dict[Place, int] = {}
        """When each was last listed, or answered."""

    def update(self, listed: Iterable[ListedBroker], now: int) -> None:
        """Take what a name server lists.

        Args:
            listed: the brokers.
            now: the time by a clock that only rises, milliseconds.
        """
        brokers = list(listed)
        self._listed = {broker.place for broker in brokers}
        self._here_at |= dict.fromkeys((*self._listed, *(self.masters.keys() - self.silent)), now)
        for place in [p for p in self.masters if now - self._here_at.setdefault(p, now) >= BROKER_FORGOTTEN_MS]:
            self._forget(place)
        replaceable = [place for place in self.masters if place not in self._answered | self._listed]
        self.left_out = 0
        for broker in brokers:
            if self._has_room(broker, replaceable):
                self._take(broker)
            else:
                self.left_out += 1

    def note_unlisted(self) -> None:
        """Note that no name server has answered: it is unknown which brokers are listed."""
        self._listed = None

    def is_listed(self, place: Place) -> bool | None:
        """Return whether a name server lists the broker; None if none has answered the last time."""
        return None if self._listed is None else place in self._listed

    def in_use(self) -> list[ListedBroker]:
        """Return the replica of each broker that its clients use."""
        masters = [master for master in self.masters.values() if master is not None]
        return [*(one for one in masters if one.place not in self.slaves), *self.slaves.values()]

    def clusters(self) -> list[str]:
        """Return the names of their clusters."""
        return sorted({cluster for cluster, _ in self.masters})

    def note(self, broker: ListedBroker, *, answers: bool) -> bool:
        """Note whether a broker has answered; return whether it has not, and had before or was not asked yet."""
        place = broker.place
        if answers:
            self._answered.add(place)
            self.silent.discard(place)
            self._failing.discard(place)
            return False
        self.silent.add(place)
        is_news = place not in self._failing
        self._failing.add(place)
        return is_news

    def _has_room(self, broker: ListedBroker, replaceable: list[Place]) -> bool:
        if broker.place in self.masters or len(self.masters) < BROKERS:
            return True
        if not replaceable:
            return False
        self._forget(replaceable.pop())
        return True

    def _forget(self, place: Place) -> None:
        """Forget a broker, which is new if it is listed again."""
        del self.masters[place]
        self.slaves.pop(place, None)
        self._here_at.pop(place, None)
        for places in (self.silent, self._failing, self._answered):
            places.discard(place)

    def _take(self, broker: ListedBroker) -> None:
        place = broker.place
        if place not in self.masters:
            self.silent.add(place)
        if broker.is_master:
            self.masters[place] = broker
            self.slaves.pop(place, None)
        else:
            self.masters.setdefault(place, None)
            self.slaves[place] = broker
