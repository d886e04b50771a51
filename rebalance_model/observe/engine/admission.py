"""Give each source a place in the shard, or refuse it: who can write to the log can invent names without end.

All of a shard's work for a tick, and what it keeps of its sources, grows with their number. So there are `SOURCES_MAX`
places. When all are taken, a new source gets the place of the one that has been silent for longest, if that is long
enough: as long as a source is new (`NEW_UNTIL`) for one that never sent ticks for longer than that, else as long as a
broker is away that is gone (`Policy.broker_gone_after`). Until there is one, the events of the new source are refused.

So a source that sends ticks keeps its place, whatever is invented, and invented names, which soon are silent, leave
theirs to the next that come; honest newcomers are among them, and stay.
"""

from rebalance_model.observe.engine.ordering import NEW_UNTIL
from rebalance_model.observe.engine.sources import Source, Waiting
from rebalance_model.observe.policy import Policy

SOURCES_MAX = 2_000
"""The sources of a shard. It has a copy of every broadcast, so these are all collectors and hooks of all clusters."""
REFUSED = f"the shard has {SOURCES_MAX:,} sources, its limit, and none of them has been silent for long"
"""Why events of a new source are refused."""


class Admission:
    """Decides which source gives its place to a new one."""

    def __init__(self, state: Waiting, policy: Policy) -> None:
        self._state = state
        self._policy = policy
        self._none_until = 0
        """The stopwatch until which no source gives its place."""

    @property
    def is_full(self) -> bool:
        """Return whether all places are taken."""
        return len(self._state.sources) >= SOURCES_MAX

    def leaving(self) -> str | None:
        """Return the source that gives its place to a new one; None: there is none yet."""
        state = self._state
        if state.elapsed < self._none_until:
            return None
        leaves, last = min((self._leaves_at(source), name) for name, source in state.sources.items())
        if leaves > state.elapsed:
            self._none_until = leaves  # later, if it ticks again
            return None
        return last

    def _leaves_at(self, source: Source) -> int:
        """Return the stopwatch from which a source gives its place, if it sends no tick until then."""
        if source.tick_elapsed - source.known_elapsed < NEW_UNTIL:
            return source.tick_elapsed + NEW_UNTIL
        return source.tick_elapsed + self._policy.broker_gone_after
