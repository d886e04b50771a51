"""The memory that the ordering of a shard has of its sources (`ordering` decides with it)."""

from collections.abc import Collection
from typing import Literal, NamedTuple

import msgspec

from rebalance_model.observe.events import AnyEvent, BrokerStatus, ClockSeen, Event
from rebalance_model.observe.events.decoding import FUTURE_MS_MAX
from rebalance_model.observe.state import ClusterState, Sequence
from rebalance_model.observe.state.clocks import Clocks

INTERVAL_MAX = 600_000
"""A source whose ticks are further apart is waited for as if they came after this; milliseconds. Otherwise two ticks
with years between them, as of a host whose clock was at 1970, would let time run on for years without a tick."""
JUMP = 60_000
"""A tick that is further ahead of the highest one is doubted, and a clock that differs by more from the timeline is not
preferred as the reference; milliseconds."""
INCARNATIONS_MAX = 64
"""The number of a source's incarnations that are remembered. A copy of an older one's event would begin a new one."""
START_MARGIN = 5_000
"""Nothing is released before the log's stamp is `source_silent_after` plus this past its first row's; milliseconds."""
START_STAMP_STEP = 15_000
"""A longer step between two stamps counts for this much; milliseconds. Files of a log are stamped every 10 s."""
UNREACHABLE_WAIT = 5_000
"""The wait for the hook of a broker that does not answer, in addition to its lag; milliseconds."""
LAG_EASES = 50
"""A source's recorded lag decreases by this much with each of its ticks; milliseconds."""
COMES_BACK_WITHIN = 3_600_000
"""The watermark makes no allowance for a source that has been silent for longer; milliseconds."""
START_TICKS = 600_000
"""The alternative start condition: ticks span this long; milliseconds."""
NEW_UNTIL = START_TICKS
"""A source is new until its ticks span this long; milliseconds."""
RECOVERS_AFTER = 10
"""The budget of newcomers recovers so many times as slowly as it is spent."""
NEVER = 2**63 - 1
"""A time after every event; epoch milliseconds."""

Why = Literal["SILENT", "LATE", "BUFFER_FULL"]
"""Why the watermark does not wait for a source: no tick comes, ticks stay behind, or the buffer was full."""


class OutOfWait(NamedTuple):
    """A source that the watermark no longer waits for."""

    source: str
    tick: int
    """Its last tick."""
    at: int
    """The time on the timeline from which it is silent; epoch milliseconds."""
    why: Why
    wrong_clock: bool = False
    """True if its ticks are late, or too early, because its clock is wrong."""


class Doubt(msgspec.Struct, array_like=True, frozen=True):
    """Ticks of a source are far ahead of all others': either those have paused, or its clock is wrong."""

    since: int
    """The first of these ticks."""
    highest: int
    """The highest tick of the others then."""
    tick: int
    """Its last tick before; -1: it had none."""


class Source(msgspec.Struct, array_like=True):
    """The arrivals from one source; times are on the timeline, stopwatch values in milliseconds since its start."""

    broker: str = ""
    """The replica of a broker whose hook it is, as its ticks report: cluster/broker, a slave's with :id at its end;
    empty for a collector."""
    correction: int = 0
    """The correction that is subtracted from its times, milliseconds."""
    tick: int = -1
    """Its highest tick; -1: none has come yet."""
    span: int = 0
    """The time between its first tick and its highest; milliseconds."""
    steps: tuple[int, ...] = ()
    """The gaps between its last ticks, at most two; milliseconds."""
    last: Sequence | None = None
    """The seq of its last tick: a copy of a tick does not show that the source is alive."""
    tick_elapsed: int = 0
    """The stopwatch when its last tick came; before the first one, when its first event came."""
    behind_since: int | None = None
    """The stopwatch when its ticks began to be too far behind; None: they are not."""
    unreachable_since: int | None = None
    """When a collector found that its broker does not answer; None: it does."""
    newest: int = 0
    """The highest time of its events so far."""
    floor: int = 0
    """A lower bound for the times of its events: after a changed correction, time must not go back within a source."""
    lag: int = 0
    """The time by which its rows have recently been behind the highest tick on arrival; milliseconds."""
    late: bool = False
    """True if the watermark no longer waits for it."""
    stays_behind: bool = False
    """True if that is because its ticks stay behind, not because none comes."""
    ended: bool = False
    doubt: Doubt | None = None
    """None: its ticks are not far ahead of the others'."""
    wrong: bool = False
    """True if it is not waited for because its clock is wrong; its events are skipped."""
    incarnations: tuple[tuple[int, int], ...] = ()
    """Its last incarnations: when each began by the clock of its host, and the number by which it is known here."""
    known_elapsed: int = 0
    """The stopwatch when its first event came."""

    def number_of(self, start: int, *, was_set_back: bool) -> int:
        """Return the number of its incarnation that began at ``start``: usually that, else above the last one.

        A host whose clock was set back starts the next incarnation before the last one.

        Args:
            start: epoch milliseconds, by the clock of its host.
            was_set_back: whether the event's time is before that of earlier ones.
        """
        for known, number in reversed(self.incarnations):
            if known == start:
                return number
        last = max((number for _, number in self.incarnations), default=-1)
        number = max(start, last + 1) if was_set_back else start
        self.incarnations = (*self.incarnations, (start, number))[-INCARNATIONS_MAX:]
        return number

    @property
    def complete_until(self) -> int:
        """Return until when all its events are there: a tick that is doubted shows nothing; -1: unknown."""
        return self.tick if self.doubt is None or self.doubt.tick < 0 else self.doubt.tick

    @property
    def jump(self) -> int:
        """Return by how much a tick must be ahead of all others' to be doubted, milliseconds."""
        return max(JUMP, 3 * self.interval)

    @property
    def interval(self) -> int:
        """Return the time between two of its ticks, milliseconds, without an outage; 0: unknown."""
        return min(*self.steps, INTERVAL_MAX) if self.steps else 0

    def step_max(self, silent_after: int) -> int:
        """Return the largest step of time that counts: neither a set clock nor an outage of all makes a source late."""
        return max(silent_after // 2, min(self.interval, silent_after))

    def time_of(self, event: Event) -> int:
        """Return the time of one of its events on the timeline."""
        return max(self.floor, event.time - self.correction, 0)


class Waiting(msgspec.Struct, array_like=True):
    """The shard's own part of the ordering's state; the buffer is kept beside it."""

    first_stamp: int = -1
    started: bool = False
    watermark: int = 0
    """The watermark: everything older has been released."""
    highest: int = 0
    """The highest tick, limited to the log's stamp plus the tolerated difference of clocks."""
    elapsed: int = 0
    """A stopwatch that advances with the highest tick; a clock step counts for at most `Source.step_max`."""
    arrivals: int = 0
    sources: dict[str, Source] = {}
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    bytes: int = 0
    """The size of the buffer's content, in bytes as received."""
    stamp: int = 0
    """The log's last stamp before the start."""
    jumped: int = 0
    """By how much stamps had jumped until then; milliseconds."""
    held_by_new: int = 0
    """The part that is spent of the budget by which newcomers together may hold back the others (`RECOVERS_AFTER` times
    the milliseconds)."""

    def new_source(self, name: str) -> Source:
        """Return a source on first sight."""
        source = self.sources[name] = Source(tick_elapsed=self.elapsed, known_elapsed=self.elapsed)
        return source

    def stamp_before_start(self, stamp: int) -> int:
        """Return the log's stamp before the start, without its jumps: the clock that stamps may be set, too."""
        jump = stamp - self.stamp - START_STAMP_STEP
        self.jumped += max(0, jump) if self.stamp else 0
        self.stamp, stamp = stamp, stamp - self.jumped
        self.first_stamp = stamp if self.first_stamp < 0 else min(self.first_stamp, stamp)
        return stamp

    def let_pass(self, passed: int) -> None:
        """Advance the stopwatch, and count the time for which newcomers that are behind hold back the others."""
        self.elapsed += passed
        behind = [source for source in self.sources.values() if source.behind_since is not None]
        holds = self.started and any(not (one.late or one.ended) and one.span < NEW_UNTIL for one in behind)
        change = RECOVERS_AFTER * passed if holds else -passed
        self.held_by_new = max(0, self.held_by_new + change)

    def note_reachable(self, status: BrokerStatus, time: int) -> None:
        """Note whether a broker answers; only a collector can find that it does not."""
        for source in self.sources.values():
            if source.broker == broker_of(status):
                if status.error is None or not status.error.is_silence:
                    source.unreachable_since = None  # an error code from the broker is an answer
                elif source.unreachable_since is None:
                    source.unreachable_since = time


Held = tuple[int, str, int, int, AnyEvent]
"""One event in the buffer: its time on the timeline, its source, its arrival number, its size, the event itself."""


def is_consistent(event: AnyEvent) -> bool:
    """Return whether the times that an event reports of its source's clock are before its own, and not long before."""
    if isinstance(event, ClockSeen):
        return event.seen <= event.time <= event.seen + FUTURE_MS_MAX
    if isinstance(event, BrokerStatus) and event.answered:
        return event.asked <= event.answered <= event.time <= event.asked + FUTURE_MS_MAX
    return True


def broker_of(event: Event) -> str:
    """Return the replica of the broker whose event it is: replicas have clocks of their own."""
    replica = f":{event.broker_id}" if event.broker_id else ""
    return f"{event.cluster}/{event.broker}{replica}"


class TimelineState(msgspec.Struct):
    """State of a shard's timeline beside its groups; times are epoch milliseconds."""

    now: int = 0
    """The present time of the timeline."""
    ticked: int = 0
    """When any source last ticked: time advances only while a source ticks."""
    known_at: int = 0
    """The log's highest stamp so far."""
    checks: dict[str, int] = {}
    """When each group has a timer due."""
    falls_silent: dict[str, OutOfWait] = {}
    """Sources that are no longer waited for, until their silence is due."""
    clusters: dict[str, ClusterState] = {}
    """The state of each cluster."""
    groups_of: dict[str, dict[str, None]] = {}
    """By source, the groups that it reports."""
    followers: dict[str, int] = {}
    """By collector, how many groups follow it."""
    boots: dict[str, int] = {}
    """By source and broker: when the broker started, as that source last reported."""
    rows_forgotten: int = 0
    """The highest row number of a forgotten cluster: the rows of one that comes back continue above it."""

    def cluster(self, name: str) -> ClusterState:
        """Return a cluster's state; create it on first sight."""
        return self.clusters.setdefault(name, ClusterState(name, rows=self.rows_forgotten))

    def forget_source(self, source: str, kept: Collection[str]) -> None:
        """Forget a source, but not that these groups name it."""
        self.falls_silent.pop(source, None)
        for name in [name for name in self.boots if name.startswith(f"{source} ")]:
            del self.boots[name]
        if kept:
            self.groups_of[source] = dict.fromkeys(kept)
        else:
            self.groups_of.pop(source, None)

    def forget_cluster(self, name: str) -> None:
        """Forget a cluster of which no source is left."""
        self.rows_forgotten = max(self.rows_forgotten, self.clusters.pop(name).rows)
