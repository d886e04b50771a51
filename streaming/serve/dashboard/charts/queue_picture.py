"""A picture of one queue over a period: its owners, offsets, lag and lock, and marks for what happened."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.health import SEVERITY, Severity
from streaming.queries.results import Incident, QueueHistory, Transition
from streaming.serve.dashboard.charts.queue_series import Line, clipped, lock_ages, steps, value_at, with_bounds
from streaming.serve.dashboard.parts.palette import colours, short_names
from streaming.serve.links import incident_link, rebalance_link

WIDTH, HEIGHT = 1000, 100
"""The size of a chart in its own units; the page stretches it."""
_TICKS = 5
_ROWS = 20
"""The number of instants in the table of the values."""
_MARKS = 12
"""The maximum number of marks; of more, those nearest to the opening of the incident, or to the end, are shown."""
_APART = 1.5
"""The minimum distance of flags, in percent."""


class LaneSpan(NamedTuple):
    """A part of the queue's lane; left and width in percent."""

    left: float
    width: float
    client: str | None
    """None: unassigned."""
    begin: int
    end: int


class Chart(NamedTuple):
    """A chart of one quantity."""

    title: str
    top: str
    bottom: str
    lines: Sequence[tuple[str, str, str]]
    """The class, name and path of each line; without a path nothing of it is known."""


class Mark(NamedTuple):
    """Something that happened."""

    time: int
    text: str
    link: str | None
    severity: Severity | None
    left: float = 0.0
    """Position in percent."""
    number: int = 0
    """The number of its flag: marks that are too near for flags of their own share one."""


class InstantRow(NamedTuple):
    """The quantities of the queue at one instant, as last observed by then; None is unknown."""

    time: int
    owner: str
    broker_offset: int | None
    commit_offset: int | None
    lag: int | None
    lag_is_at_least: bool
    waiting_ms: int | None
    waiting_is_at_most: bool
    lock_age_ms: int | None


class Lines(NamedTuple):
    """The quantities over time."""

    broker: list[Line]
    commit: list[Line]
    lag: list[Line]
    lag_at_least: list[Line]
    waiting: list[Line]
    waiting_at_most: list[Line]
    lock: list[Line]


class Picture(NamedTuple):
    """The values of the template `queue_picture`."""

    history: QueueHistory
    ticks: Sequence[tuple[float, int]]
    spans: Sequence[LaneSpan]
    charts: Sequence[Chart]
    rows: Sequence[InstantRow]
    marks: Sequence[Mark]
    flags: Sequence[Mark]
    """The worst one of the marks that share a number."""
    more: int
    """The number of marks that are not shown."""
    open: tuple[float, float] | None
    """Begin and width of the incident, in percent."""
    colours: dict[str, int]
    short: dict[str, str]
    sources: str
    last: int | None
    """The time of the last observation."""


def picture(
    history: QueueHistory, known_until: int, incident: Incident | None = None, life: Sequence[Transition] = ()
) -> Picture:
    """Prepare the picture of a queue.

    Args:
        history: the queue over the period.
        known_until: the end of what is known, epoch milliseconds.
        incident: the incident that the picture is about.
        life: its transitions.
    """
    clients = [interval.client_id for interval in history.intervals]
    short = dict(short_names(clients))
    until = min(history.until, known_until)
    happened = sorted(_marks(history, short, incident, life), key=lambda mark: mark.time)
    in_period = [mark for mark in happened if history.since <= mark.time <= history.until]
    marks = _numbered(_nearest(in_period, history, incident), history)
    seen = history.observations
    lines = _lines(history, until)
    spans = list(_spans(history, until))
    return Picture(
        history=history,
        ticks=[
            (100 * n / _TICKS, history.since + (history.until - history.since) * n // _TICKS) for n in range(_TICKS + 1)
        ],
        spans=spans,
        charts=_charts(history, lines),
        rows=_rows(history, lines, spans, until),
        marks=marks,
        flags=_flags(marks),
        more=len(in_period) - len(marks),
        open=_open(history, incident, until),
        colours=colours(clients),
        short=short,
        sources=_sources(history),
        last=seen[-1].time if seen else None,
    )


def _percent(history: QueueHistory, time: int) -> float:
    share = (time - history.since) / max(1, history.until - history.since)
    return round(100 * min(1.0, max(0.0, share)), 3)


def _open(history: QueueHistory, incident: Incident | None, until: int) -> tuple[float, float] | None:
    if incident is None:
        return None
    left = _percent(history, incident.opened_at)
    return left, _percent(history, incident.resolved_at if incident.resolved_at is not None else until) - left


def _spans(history: QueueHistory, until: int) -> Iterator[LaneSpan]:
    """Yield the owners, and the times without one; nothing before the first owner that is known."""

    def span(begin: int, end: int, client: str | None) -> LaneSpan:
        left = _percent(history, begin)
        return LaneSpan(left, round(_percent(history, end) - left, 3), client, max(begin, history.since), end)

    free = history.unassigned_since
    for interval in history.intervals:
        if free is not None and interval.from_time > max(free, history.since):
            yield span(free, interval.from_time, None)
        free = interval.to_time
        end = min(until, interval.to_time if interval.to_time is not None else until)
        if end > max(interval.from_time, history.since):
            yield span(interval.from_time, end, interval.client_id)
    if free is not None and free < until:
        yield span(free, until, None)


def _lines(history: QueueHistory, until: int) -> Lines:
    seen = history.observations
    broker, commit = (steps(seen, value, until) for value in (lambda o: o.broker_offset, lambda o: o.commit_offset))
    lag = with_bounds(seen, lambda o: o.lag, lambda o: o.lag_is_at_least, until)
    waiting = with_bounds(seen, lambda o: o.waiting_ms, lambda o: o.waiting_is_at_most, until)
    quantities = (broker, commit, *lag, *waiting, lock_ages(seen, until))
    return Lines(*(clipped(lines, history.since) for lines in quantities))


def _rows(history: QueueHistory, lines: Lines, spans: Sequence[LaneSpan], until: int) -> list[InstantRow]:
    times = (history.since + (history.until - history.since) * n // _ROWS for n in range(_ROWS + 1))
    rows = []
    for time in times:
        if time > until:
            break
        values = [value_at(line, time) for line in lines]
        broker, commit, exact, bound, waiting, at_most, lock = (
            None if value is None else round(value) for value in values
        )
        holder = next((span for span in spans if span.begin <= time <= span.end), None)
        owner = labels.NOT_KNOWN if holder is None else holder.client or gettext("unassigned")
        rows.append(
            InstantRow(
                time,
                owner,
                broker,
                commit,
                bound if exact is None else exact,
                exact is None,
                at_most if waiting is None else waiting,
                waiting is None,
                lock,
            )
        )
    return rows


def _charts(history: QueueHistory, lines: Lines) -> list[Chart]:
    return [
        _chart(
            history, gettext("Offsets"), labels.number,
            {gettext("broker"): lines.broker, gettext("committed"): lines.commit}, from_zero=False,
        ),
        _chart(
            history, gettext("Lag"), labels.number,
            {gettext("lag"): lines.lag, gettext("lag at least"): lines.lag_at_least},
        ),
        _chart(
            history, gettext("Waiting"), labels.duration,
            {gettext("waiting"): lines.waiting, gettext("waiting at most"): lines.waiting_at_most},
        ),
        _chart(history, gettext("Lock age"), labels.duration, {gettext("lock age"): lines.lock}),
    ]  # fmt: skip


def _chart(
    history: QueueHistory,
    title: str,
    text: Callable[[int | None], str],
    lines: dict[str, list[Line]],
    *,
    from_zero: bool = True,
) -> Chart:
    values = [value for parts in lines.values() for line in parts for _, value in line]
    low = 0.0 if from_zero or not values else min(values)
    high = max([*values, low + 1])

    def path(segments: list[Line]) -> str:
        parts = []
        for line in segments:
            points = (
                f"{WIDTH * _percent(history, time) / 100:.1f} {HEIGHT * (high - value) / (high - low):.1f}"
                for time, value in line
            )
            parts.append("M" + "L".join(points))
        return "".join(parts)

    drawn = [(f"line-{n}", name, path(parts)) for n, (name, parts) in enumerate(lines.items()) if parts]
    known = bool(values)
    return Chart(title, text(round(high)) if known else "", text(round(low)) if known else "", drawn)


def _marks(
    history: QueueHistory, short: dict[str, str], incident: Incident | None, life: Iterable[Transition]
) -> Iterator[Mark]:
    for step in life:
        what = f"{gettext(step.transition.lower())} {step.sub_cause}".rstrip()
        yield Mark(step.time, gettext("this incident {what}", what=what), None, step.severity)
    for other in history.incidents:
        if incident is not None and other.incident_id == incident.incident_id:
            continue
        about = "" if other.queue_id is not None or not other.subject else f" {other.subject}"
        title, link = f"{other.title}{about}", incident_link(other.incident_id)
        yield Mark(other.opened_at, gettext("{incident} opened", incident=title), link, other.severity)
        if other.resolved_at is not None:
            yield Mark(other.resolved_at, gettext("{incident} resolved", incident=title), link, other.severity)
    for rebalance in history.rebalances:
        client = rebalance.trigger_client
        text = labels.trigger(rebalance.trigger, client and short.get(client, client), 0)
        link = rebalance_link(rebalance.cluster, rebalance.group, rebalance.rebalance_id)
        yield Mark(rebalance.start_time, gettext("rebalance: {trigger}", trigger=text), link, None)
    yield from _owner_marks(history, short)


def _owner_marks(history: QueueHistory, short: dict[str, str]) -> Iterator[Mark]:
    """Yield a mark for each change of the owner, with its evidence."""
    handed_over_at = None
    for interval, following in zip(history.intervals, [*history.intervals[1:], None], strict=False):
        name = short[interval.client_id]
        gained = labels.gained(interval.evidence)
        if interval.from_time != handed_over_at:
            yield Mark(
                interval.from_time,
                gettext("{client} has the queue: {evidence}", client=name, evidence=gained),
                None,
                None,
            )
        handed_over_at = None
        if following is not None and following.from_time == interval.to_time:
            handed_over_at = interval.to_time
            why = labels.gained(following.evidence)
            yield Mark(interval.to_time, f"{name} → {short[following.client_id]}: {why}", None, None)
        elif interval.to_time is not None:
            why = labels.lost(interval.end_evidence) if interval.end_evidence else gettext("reason unknown")
            yield Mark(
                interval.to_time,
                gettext("{client} has lost the queue: {evidence}", client=name, evidence=why),
                None,
                None,
            )


def _nearest(marks: list[Mark], history: QueueHistory, incident: Incident | None) -> list[Mark]:
    focus = incident.opened_at if incident is not None else history.until
    chosen = sorted(marks, key=lambda mark: abs(mark.time - focus))[:_MARKS]
    return sorted(chosen, key=lambda mark: mark.time)


def _numbered(unnumbered: list[Mark], history: QueueHistory) -> list[Mark]:
    marks: list[Mark] = []
    flag, number = -_APART, 0
    for mark in unnumbered:
        left = _percent(history, mark.time)
        if left - flag >= _APART:
            flag, number = left, number + 1
        marks.append(mark._replace(left=left, number=number))
    return marks


def _flags(marks: Iterable[Mark]) -> list[Mark]:
    worst: dict[int, Mark] = {}
    for mark in marks:
        flag = worst.setdefault(mark.number, mark)
        if mark.severity and (not flag.severity or SEVERITY[mark.severity].rank < SEVERITY[flag.severity].rank):
            worst[mark.number] = flag._replace(severity=mark.severity)
    return list(worst.values())


def _sources(history: QueueHistory) -> str:
    kinds = {(one.source, one.client_id is not None) for one in history.observations}
    names = {
        ("POLL", False): gettext("the broker's answers to the collector (offsets, lag)"),
        ("POLL", True): gettext("the owner's answers to the collector (lock)"),
        ("HOOK", False): gettext("the broker's hook (commits, lock)"),
    }
    return gettext(", ").join(name for kind, name in names.items() if kind in kinds)
