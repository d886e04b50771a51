"""Fold events in a shard, in the order of the log."""

from collections.abc import Iterable

from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from tests.support.evidence import undeclared

_CHECKED_EACH = 29
"""After how many events: after each one the checks took a quarter of all the time. The shard itself checks, too."""


class Fold:
    """One shard of a log whose timestamps are the highest event time so far: no row is late, no clock is wrong."""

    def __init__(self, policy: Policy | None = None, saved: Saved | None = None, groups: GroupsInMemory | None = None):
        self.groups = groups if groups is not None else GroupsInMemory()
        self.policy = policy or Policy()
        self.shard = Shard(saved, self.groups, self.policy)
        self.stamp = 0

    def push(self, event: AnyEvent, stamp: int | None = None) -> list[AnyEffect]:
        self.stamp = max(self.stamp, event.time if stamp is None else stamp)
        effects = self.shard.push(event, self.stamp)
        assert [what for effect in effects if (what := undeclared(effect))] == []
        return effects

    def cut(self) -> None:
        """End a batch here: later events continue from the saved state."""
        self.shard = Shard(self.shard.flush(), self.groups, self.policy)

    def all(self, events: Iterable[AnyEvent]) -> list[AnyEffect]:
        """Return the effects of events after which all sources end; check every group's state again and again."""
        effects = []
        for number, event in enumerate(events):
            effects += self.push(event)
            for state in self.shard.timeline.groups() if number % _CHECKED_EACH == 0 else ():
                state.validate()
        return effects + self.shard.finish()


def folded(events: Iterable[AnyEvent], policy: Policy | None = None) -> list[AnyEffect]:
    """Return the effects of a whole log."""
    return Fold(policy).all(events)
