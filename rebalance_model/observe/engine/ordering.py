"""Bring the events of a shard from log order into time order.

Every source sends ticks: "all my events older than this have been sent". Events older than the lowest tick of the
sources that keep up (the watermark) are complete, and are released by (time, source, order of arrival). So the order
of two sources in the log does not matter; each source waits for the others for about one tick interval.

- *Late*: ticks of a source stay behind the highest by more than `Policy.source_silent_after` and two of its intervals,
  or stop while others' continue for that long. The watermark no longer waits for it (Flink's idle source), and its
  events from before the watermark are not folded. It keeps up again when it ticks; a late one when it is less than half
  of that behind.
- *Newcomers*: a source is new until its ticks span ten minutes. One whose ticks are too far behind is waited for as
  any other, but all of them together no longer than one: the time that they hold back is a budget, which recovers ten
  times as slowly. Anybody who can write to the log can invent names without end.
- *Start*: nothing is released before the log's stamp is 20 s past its first row, or ticks span ten minutes (a fast
  replay, whose stamps do not advance), or every known source has ended, or the buffer is full: the sources and their
  clocks have to be known first. A source whose first event comes later is waited for from its first tick on.
- *End*: a source that stops reports it in its last tick, and the watermark no longer waits for it. When all have ended,
  everything is released. For a hook whose broker does not answer, the wait ends 5 s after its last tick.
- *Bound*: 100,000 events or 64 MB. Beyond that the watermark no longer waits for the source that is furthest behind.
- *Clock set*: a source that reports it (CLOCK_STEP) has stamped its events before that by another clock. Those in the
  buffer get the new clock's times.
- *Doubt*: time does not come back. So a tick more than a minute ahead of all others' moves nothing at first. If the
  source stays ahead for as long as a source may be behind, either the others have paused, and time follows it;
  or they have continued, or it is ahead of the log's own stamp, too: then its clock is wrong, it is not waited
  for, and its events are skipped. The same holds for a source that is behind the timeline though no other is ahead of
  it: time had followed a wrong clock, which was then set back.
- *Incarnations* are numbered in the order in which they appear, not by their start, which is by the host's clock.

The log's stamp has one more use beside these: a clock ahead of it does not make the other sources late.

Decisions that were measured on the demo's recording and the simulation's scenarios, and differ from the first design:
- A silent source may come back, and its events are then as late as before. So the watermark stays behind the highest
  tick by the lag of each source that is away. Otherwise, when a broker returned after an outage and its hook was 1 s
  late in the log, the first second of its events was lost.
- A source is silent from its last tick on, not from the end of the wait: that nothing came in between proves nothing.
  When the end of the wait was used, every lock expired before the gap was reported.
- The start waits for `source_silent_after` and 5 s: a source that is 15 s late, and ticks for the first time a second
  after its first row, has to be known by then.
- An answer is dated by its event's time, which the collector stamps on arrival (at most 3 ms later in a lab). A second
  date for answers that wait for their route would let rows go back in time.
"""

import heapq
from collections.abc import Callable, Collection, Iterator

import msgspec

from rebalance_model.observe.engine.sources import (
    COMES_BACK_WITHIN,
    JUMP,
    LAG_EASES,
    NEVER,
    NEW_UNTIL,
    RECOVERS_AFTER,
    START_MARGIN,
    START_TICKS,
    UNREACHABLE_WAIT,
    Doubt,
    Held,
    OutOfWait,
    Source,
    Waiting,
    Why,
    broker_of,
    is_consistent,
)
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ClockSeen,
    ClockStep,
    GroupEvent,
    Tick,
    corrected,
    instance_of,
    source_of,
)
from rebalance_model.observe.events.decoding import FUTURE_MS_MAX
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Sequence

__all__ = ["NEVER", "Held", "Ordering", "OutOfWait", "Waiting"]

EVENTS_MAX = 100_000
"""The limit of the buffer, events."""
BYTES_MAX = 64_000_000
"""The limit of the buffer, bytes as received."""


class Ordering:
    """The buffer of one shard, which releases events in time order."""

    def __init__(self, state: Waiting, buffer: list[Held], policy: Policy) -> None:
        self.state = state
        self.buffer = buffer
        """A heap."""
        self._policy = policy
        self._out: list[OutOfWait] = []
        self._skipped: list[AnyEvent] = []
        self._believed: list[AnyEvent] = []

    def identified(self, event: AnyEvent) -> AnyEvent:
        """Return the event under the number of its source's incarnation; see `Source.number_of`."""
        name, (instance, start) = source_of(event), instance_of(event.source_id)
        source = self.state.sources.get(name) or self.state.new_source(name)
        behind, incarnations = source.newest - (event.time - source.correction), source.incarnations
        if incarnations and incarnations[-1] == (start, start):
            return event  # the usual case
        number = source.number_of(start, was_set_back=behind > 0)
        if incarnations and source.incarnations is not incarnations and behind > self.limit_of(source):
            self._set_clock(name, source, -behind)
        return event if number == start else msgspec.structs.replace(event, source_id=f"{instance}@{number}")

    def push_usual(self, event: AnyEvent, size: int) -> bool:
        """Process a row of a group if nothing of its source is corrected or doubted; return False if it is not so.

        A shortcut of `push`, with the same result: most rows can take it, unless they fill the buffer.
        """
        state, name, time = self.state, source_of(event), event.time
        source = state.sources.get(name)
        if source is None or not state.started or self._skipped or len(self.buffer) >= EVENTS_MAX:
            return False
        if source.correction or source.wrong or source.doubt is not None or not source.floor <= time >= state.watermark:
            return False
        start = instance_of(event.source_id)[1]
        if not source.incarnations or source.incarnations[-1] != (start, start) or state.bytes + size > BYTES_MAX:
            return False
        if time > source.newest:
            source.newest, source.lag = time, max(source.lag, state.highest - time)
        state.arrivals += 1
        heapq.heappush(self.buffer, (time, name, state.arrivals, size, event))
        state.bytes += size
        return True

    def push(self, event: AnyEvent, stamp: int, size: int, *, at_once: bool = False) -> AnyEvent | None:
        """Process the next row of the log.

        Args:
            event: the event.
            stamp: the log's own stamp of the row, epoch milliseconds.
            size: its bytes in the log.
            at_once: whether it arrived together with the row before it, so that no waiting time has passed.

        Returns:
            The event, on the timeline, if it is too late to be folded in its order; else None. A copy of a tick is
            dropped.
        """
        state, name = self.state, source_of(event)
        stamp = stamp if state.started else state.stamp_before_start(stamp)
        source = state.sources.get(name) or state.new_source(name)
        broadcast = not isinstance(event, GroupEvent)
        if isinstance(event, ClockStep) and not self._fold_step(event, name, source):
            return None
        is_tick = broadcast and isinstance(event, Tick)
        if broadcast and not is_tick and is_consistent(event):
            self._compare_clocks(event, name)
        if source.correction < 0 and event.time - source.correction > stamp + FUTURE_MS_MAX:
            state.clocks.forget(name)  # its clock has been set since it was measured
            self._correct()
        time = source.time_of(event)
        if time > source.newest:  # a copy does not show how late the source is
            source.newest, source.lag = time, max(source.lag, state.highest - time)
        state.arrivals += 1
        if broadcast and isinstance(event, Tick):
            if not self._fold_tick(event, name, source, time, stamp, at_once=at_once):
                return None
        elif broadcast and isinstance(event, BrokerStatus):
            state.note_reachable(event, time)
        if source.wrong or time < state.watermark:
            return corrected(event, time, source.correction)
        heapq.heappush(self.buffer, (time, name, state.arrivals, size, event))
        state.bytes += size
        if not state.started:
            state.started = self._may_start(stamp)
        return None

    def released(self, followed: Collection[str]) -> Iterator[AnyEvent]:
        """Release what is complete, in the order of time.

        Args:
            followed: the collectors that groups follow; if there are any, others are not waited for.
        """
        state = self.state
        if not state.started:
            return
        self._limit(followed)
        until = self._complete_until(followed)
        sources = state.sources
        while (buffer := self.buffer) and (buffer[0][0] < until or self.is_full()):
            time, name, _, size, event = heapq.heappop(buffer)
            state.bytes -= size
            state.watermark = max(state.watermark, time)
            correction = sources[name].correction
            yield event if time == event.time and not correction else corrected(event, time, correction)
        if until == NEVER:
            until = max((source.newest for source in state.sources.values()), default=0)
        state.watermark = max(state.watermark, until)

    def on_timeline(self, event: AnyEvent) -> tuple[AnyEvent, bool]:
        """Bring an event that was just pushed onto the timeline, by the present correction of its source's clock.

        Returns:
            The event, and whether its time can be used as it is there.
        """
        source = self.state.sources[source_of(event)]
        if source.correction or event.time < 0:
            event = corrected(event, max(0, event.time - source.correction), source.correction)
        return event, source.doubt is None and not source.wrong

    def is_late(self, name: str) -> bool:
        """Return whether the watermark no longer waits for the source."""
        return self.state.sources[name].late

    def skipped(self) -> list[AnyEvent]:
        """Return the buffered events that are not folded, because of their source's clock, since the last call."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def believed(self) -> list[AnyEvent]:
        """Return the buffered events of sources that are doubted no more since the last call, in order of arrival."""
        believed, self._believed = self._believed, []
        return believed

    def forget(self, name: str) -> None:
        """Forget a source that has been silent for long; its events in the buffer are skipped."""
        if self.state.sources[name].newest >= self.state.watermark:
            self._skip(lambda one: one[1] == name)
        self._out = [out for out in self._out if out.source != name]
        self.state.clocks.forget(name)
        self.state.clocks.off.pop(name, None)
        del self.state.sources[name]

    def restart_broken(self) -> None:
        """Reset each source that shows a fault of the program while it is waited for."""
        for name, source in self.state.sources.items():
            try:
                self._may_come_back(source)
                self.limit_of(source)
            except Exception:  # noqa: BLE001  the failure was noted when it came up
                self.state.sources[name] = Source(incarnations=source.incarnations)

    def end(self) -> None:
        """Wait for no source any longer."""
        self.state.started = True
        for name, source in self.state.sources.items():
            source.ended = True
            if source.doubt is not None:
                self._believe(name, source)

    def out_of_wait(self) -> list[OutOfWait]:
        """Return the sources that have stopped being waited for since the last call."""
        out, self._out = self._out, []
        return out

    @property
    def idle_limit(self) -> int:
        """Return how long time may advance without a tick of any source, milliseconds."""
        return max([self.limit_of(source) for source in self.state.sources.values() if source.tick >= 0], default=0)

    def known_at(self, time: int) -> int:
        """Return the log's stamp by which an event of that time is released at the latest, if the log continues."""
        start = self.state.first_stamp + self.state.jumped + self._policy.source_silent_after + START_MARGIN
        return max(start, time + max(map(self.limit_of, self.state.sources.values())))

    def is_full(self) -> bool:
        """Return whether the buffer exceeds its limit."""
        return len(self.buffer) > EVENTS_MAX or self.state.bytes > BYTES_MAX

    def limit_of(self, source: Source) -> int:
        """Return how far behind a source may be, milliseconds."""
        silent_after, interval = self._policy.source_silent_after, source.interval
        if source.span < NEW_UNTIL:
            interval = min(interval, JUMP)  # two ticks with ten minutes between them are no promise of more
        return silent_after + 2 * interval if interval else 2 * silent_after

    def _may_start(self, stamp: int) -> bool:
        state = self.state
        if stamp - state.first_stamp >= self._policy.source_silent_after + START_MARGIN or self.is_full():
            return True
        sources = state.sources.values()
        return any(source.span >= START_TICKS for source in sources) or all(source.ended for source in sources)

    def _complete_until(self, followed: Collection[str]) -> int:
        """Return the time until which all events are there; `NEVER` if no source is waited for.

        A silent source may come back at any time, and its events are then as late as before. The watermark allows for
        that, which delays nothing further: all sources waited that long while it was reporting.
        """
        waited_for = [source.complete_until for source in self._waited_for(followed).values()]
        if not waited_for:
            if any(one.wrong for one in self.state.sources.values()):
                return self.state.highest + 1  # its silence begins after its last tick
            return NEVER
        gone = [source for source in self.state.sources.values() if source.ended or source.late]
        lags = [min(one.lag + one.interval, self.limit_of(one)) for one in gone if self._may_come_back(one)]
        return min(*waited_for, self.state.highest - max(lags, default=0))

    def _may_come_back(self, source: Source) -> bool:
        gone = source.ended or (source.late and not source.stays_behind)
        kept_up = source.span >= self.limit_of(source)  # what is behind from its first tick on has shown no lag
        return gone and kept_up and self.state.elapsed - source.tick_elapsed < COMES_BACK_WITHIN

    def _waited_for(self, followed: Collection[str]) -> dict[str, Source]:
        return {
            name: source
            for name, source in self.state.sources.items()
            if source.tick >= 0
            and not source.late
            and not source.ended
            and (source.broker or not followed or name in followed)
        }

    def _limit(self, followed: Collection[str]) -> None:
        """Stop waiting for the source that is furthest behind while the buffer is too full."""
        while self.is_full() and (waited_for := self._waited_for(followed)):
            name = min(waited_for, key=lambda name: (waited_for[name].tick, name))
            if self.buffer[0][0] < waited_for[name].tick:
                return  # releasing what is complete makes room
            self._stop_waiting(name, waited_for[name], "BUFFER_FULL")

    def _stop_waiting(self, name: str, source: Source, why: Why, *, wrong_clock: bool = False) -> None:
        """Stop waiting for a source; it is silent from its last tick on: missing events after it prove nothing."""
        source.late, source.stays_behind, source.wrong = True, why != "SILENT", wrong_clock
        until = min(source.complete_until, self.state.highest)  # its clock may have been set far ahead since
        at = until + 1 if source.doubt or not wrong_clock else self.state.watermark
        self._out.append(OutOfWait(name, at - 1, at, why, wrong_clock))

    # Ticks

    def _fold_tick(self, tick: Tick, name: str, source: Source, time: int, stamp: int, *, at_once: bool) -> bool:
        """Process a tick: its source is alive, and time has advanced for the others; return False for a copy."""
        state = self.state
        if is_known(tick, source):
            return False
        source.last, source.ended = Sequence(instance_of(tick.source_id)[1], tick.seq), tick.end
        source.broker = broker_of(tick) if tick.broker else ""
        behind = source.tick - (tick.time - source.correction)
        if behind > 0 and behind > self.limit_of(source):
            self._set_clock(name, source, -behind)  # its report of that is lost
            time = source.time_of(tick)
        before, jump = source.tick, source.jump
        step = time - before
        if step > 0 and source.tick >= 0:
            source.steps = (*source.steps, step)[-2:]
            source.span += step if step <= jump else 0
        source.tick = max(source.tick, time)
        bound = stamp + self._policy.clock_skew
        self._judge_doubt(name, source, before, jump, bound)
        step = min(time, bound) - state.highest
        if step > 0 and source.doubt is None:
            state.highest += step
            state.let_pass(0 if at_once else min(step, source.step_max(self._policy.source_silent_after)))
        source.tick_elapsed = state.elapsed
        if source.unreachable_since is not None and time > source.unreachable_since:
            source.unreachable_since = None
        is_off = tick.time > bound + JUMP or (state.started and abs(tick.time - state.highest) > JUMP)
        if state.clocks.note_off(name, is_off=is_off):
            self._correct()
        self._note_behind(source)
        if state.started:
            self._detect_late()
        return True

    def _judge_doubt(self, name: str, source: Source, before: int, jump: int, bound: int) -> None:
        """Judge whether the source's tick is too far ahead, and if it is for long, who is right.

        Args:
            name: its name.
            source: the source.
            before: its tick before.
            jump: how far a tick may be ahead of all others', milliseconds.
            bound: the log's stamp and the tolerated difference of clocks; epoch milliseconds.
        """
        state, doubt = self.state, source.doubt
        impossible = source.tick > bound + jump
        if not (impossible or (state.started and source.tick > state.highest + jump)):
            if doubt is not None:
                self._believe(name, source)
        elif doubt is None:
            source.doubt = Doubt(source.tick, state.highest, before)
        elif (lasted := source.tick - doubt.since) >= self.limit_of(source):
            others = state.highest - doubt.highest
            # Others that pass through a backlog are much faster than time.
            contradicted = impossible or lasted // 2 <= others <= 2 * lasted
            if contradicted and not source.wrong:
                self._stop_waiting(name, source, "LATE", wrong_clock=True)
                self._skip(lambda one: one[1] == name)
            if contradicted:
                source.doubt = Doubt(source.tick, state.highest, before)
            else:
                self._believe(name, source)

    def _believe(self, name: str, source: Source) -> None:
        """End the doubt of a source: the times of what it has sent meanwhile can be used."""
        source.doubt = None
        held = sorted((one for one in self.buffer if one[1] == name), key=lambda one: one[2])
        self._believed += [event for *_, event in held]

    def _note_behind(self, source: Source) -> None:
        behind, limit = max(self.state.highest, self.state.watermark) - source.tick, self.limit_of(source)
        source.lag = max(0, source.lag - LAG_EASES)
        if behind <= limit:
            source.behind_since = None
        elif source.behind_since is None:
            source.behind_since = self.state.elapsed
        if source.late and source.doubt is None and (2 * behind < limit if source.stays_behind else behind <= limit):
            source.late = source.wrong = False

    def _detect_late(self) -> None:
        state = self.state
        budget = 2 * self._policy.source_silent_after
        for name, source in state.sources.items():
            if source.late or source.ended or source.tick < 0:
                continue
            limit, silent_ms = self.limit_of(source), state.elapsed - source.tick_elapsed
            unreachable = source.unreachable_since is not None and silent_ms > UNREACHABLE_WAIT + source.lag
            if unreachable or silent_ms > limit:
                self._stop_waiting(name, source, "SILENT")
            elif source.behind_since is not None and (
                state.elapsed - source.behind_since > limit
                or (source.span < NEW_UNTIL and state.held_by_new > RECOVERS_AFTER * budget)
            ):
                self._stop_waiting(name, source, "LATE", wrong_clock=state.highest - source.tick <= limit)

    # Clocks

    def _compare_clocks(self, event: AnyEvent, name: str) -> None:
        clocks, changed = self.state.clocks, False
        if isinstance(event, ClockSeen):
            collector = f"{event.cluster}/{instance_of(event.collector)[0]}"
            changed = clocks.note_sighting((collector, event.broker, event.asked), name, event.seen)
        elif isinstance(event, BrokerStatus) and event.answered and event.error is None:
            request = (name, event.broker, event.asked)
            changed = clocks.note_answer(request, event.answered)
            hooks = [hook for hook, source in self.state.sources.items() if source.broker == broker_of(event)]
            for hook in hooks if event.now else ():
                changed = clocks.note_now(request, event.answered, hook, event.now) or changed
        if changed:
            self._correct()

    def _fold_step(self, event: ClockStep, name: str, source: Source) -> bool:
        """Bring what a source has reported by its former clock to the new one; return False for a copy."""
        if is_known(event, source):
            return False
        source.last = Sequence(instance_of(event.source_id)[1], event.seq)
        state = self.state
        if not state.started and state.first_stamp >= source.newest + source.correction - JUMP:
            state.first_stamp += min(0, event.step)  # the log was stamped by that clock, too
        self.buffer = [
            (*one[:4], corrected(one[4], max(0, one[4].time + event.step), -event.step) if one[1] == name else one[4])
            for one in self.buffer
        ]
        self._set_clock(name, source, event.step)
        return True

    def _set_clock(self, name: str, source: Source, step: int) -> None:
        """Move a source by the step of its clock; what was measured of its clock is void."""
        source.tick = max(0, source.tick + step) if source.tick >= 0 else -1
        source.newest = max(0, source.newest + step)
        source.doubt, source.wrong = None, False
        self.state.clocks.note_set(name)
        self._correct(name)

    def _correct(self, moved: str = "") -> None:
        """Assign new times to the buffered events after a correction has changed, or a clock was set."""
        state = self.state
        for name, source in state.sources.items():
            shift = state.clocks.corrections.get(name, 0) - source.correction
            source.correction += shift
            source.tick = max(0, source.tick - shift) if source.tick >= 0 else -1
            source.newest = max(0, source.newest - shift)
            if shift or name == moved:
                source.behind_since = None
                is_near = state.watermark - source.newest <= self.limit_of(source)
                source.floor = state.watermark if is_near else 0  # one that is far behind is skipped until it is not
        ticks = (one.tick for one in state.sources.values() if not (one.doubt or one.late or one.ended))
        highest = max((tick for tick in ticks if tick >= 0), default=state.highest)
        if highest <= max(state.highest, state.watermark) + JUMP:  # else it must be doubted
            state.highest = highest
        self.buffer = [(state.sources[one[1]].time_of(one[4]), *one[1:]) for one in self.buffer]
        heapq.heapify(self.buffer)
        self._skip(lambda one: one[0] < state.watermark)

    def _skip(self, which: Callable[[Held], bool]) -> None:
        """Take events out of the buffer that are not to be folded."""
        skipped = sorted(one for one in self.buffer if which(one))
        if skipped:
            self.buffer = [one for one in self.buffer if not which(one)]
            heapq.heapify(self.buffer)
            self.state.bytes -= sum(one[3] for one in skipped)
            self._skipped += [corrected(one[4], one[0], self.state.sources[one[1]].correction) for one in skipped]


def is_known(event: Tick | ClockStep, source: Source) -> bool:
    """Return whether the event is a copy of one of its source that was pushed before."""
    return source.last is not None and source.last.covers(instance_of(event.source_id)[1], event.seq)
