"""The groups about which each broker is asked: those that it lists (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201).

A group that it has left out is asked about for `GROUP_FORGOTTEN_MS` more, and for as long as it has members there: one
answer may lack it, and clients may outlive the group on their broker.
"""

from collections.abc import Collection

from streaming.base.limits import GROUP_FORGOTTEN_MS, SILENT_BROKER_GROUPS
from streaming.collect.known_brokers import Place


class KnownGroups:
    """The groups of each broker, as last known."""

    def __init__(self) -> None:
        self._known: dict[Place, set[str]] = {}
        self._unlisted: dict[Place, dict[str, int]] = {}
        """By broker, the groups that it no longer lists, and when each was last listed or had members there."""

    def of(self, place: Place) -> set[str]:
        """Return the groups of a broker, as they were when it last answered."""
        return self._known.get(place, set())

    def update(self, place: Place, listed: set[str], now: int) -> set[str]:
        """Take what a broker lists at a time, by a clock that only rises (ms); return the groups to ask it about."""
        before = self._unlisted.get(place, {})
        since = {name: before.get(name, now) for name in self.of(place) - listed}
        kept = [(name, at) for name, at in sorted(since.items()) if now - at <= GROUP_FORGOTTEN_MS]
        self._unlisted[place] = dict(kept[:SILENT_BROKER_GROUPS])
        self._known[place] = listed | self._unlisted[place].keys()
        return self._known[place]

    def note_members(self, place: Place, name: str, now: int) -> None:
        """Note that a group has members at a broker."""
        if name in self._unlisted.get(place, {}):
            self._unlisted[place][name] = now

    def keep(self, places: Collection[Place]) -> None:
        """Forget the groups of all brokers but these."""
        for place in self._known.keys() - set(places):
            del self._known[place], self._unlisted[place]
