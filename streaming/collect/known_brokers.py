"""The brokers that are polled: those that a name server has listed since the start, up to a limit.

A broker that is no longer listed may be down, which is what its polls show: so it is kept. Anybody may register brokers
at an open name server: at the limit a new one takes the place of one that has never answered and is not listed now.
"""

from collections.abc import Iterable
from typing import TypeAlias

from streaming.base.limits import BROKERS
from streaming.collect.responses import Broker

Place: TypeAlias = tuple[str, str]
"""A broker: its cluster and its name."""


class KnownBrokers:
    """The replicas of each broker that clients use, as last listed."""

    def __init__(self) -> None:
        self.masters: dict[Place, Broker | None] = {}
        """The master or the slave that acts as master, as last known; None: never known."""
        self.slaves: dict[Place, Broker] = {}
        """The slaves that are asked while there is no master."""
        self.silent: set[Place] = set()
        """Those that did not answer the last time, or were never asked."""
        self.left_out = 0
        """How many brokers of the last list are not polled, because there are too many."""
        self._answered: set[Place] = set()
        self._failing: set[Place] = set()

    def update(self, listed: Iterable[Broker]) -> None:
        """Take what a name server lists."""
        brokers = list(listed)
        now = {broker.place for broker in brokers}
        replaceable = [place for place in self.masters if place not in self._answered and place not in now]
        self.left_out = 0
        for broker in brokers:
            if self._has_room(broker, replaceable):
                self._take(broker)
            else:
                self.left_out += 1

    def in_use(self) -> list[Broker]:
        """Return the replica of each broker that its clients use."""
        masters = [master for master in self.masters.values() if master is not None]
        return [*(one for one in masters if one.place not in self.slaves), *self.slaves.values()]

    def clusters(self) -> list[str]:
        """Return the names of their clusters."""
        return sorted({cluster for cluster, _ in self.masters})

    def note(self, broker: Broker, *, answers: bool) -> bool:
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

    def _has_room(self, broker: Broker, replaceable: list[Place]) -> bool:
        if broker.place in self.masters or len(self.masters) < BROKERS:
            return True
        if not replaceable:
            return False
        place = replaceable.pop()
        del self.masters[place]
        self.slaves.pop(place, None)
        self.silent.discard(place)
        self._failing.discard(place)
        return True

    def _take(self, broker: Broker) -> None:
        place = broker.place
        if place not in self.masters:
            self.silent.add(place)
        if broker.is_master:
            self.masters[place] = broker
            self.slaves.pop(place, None)
        else:
            self.masters.setdefault(place, None)
            self.slaves[place] = broker
