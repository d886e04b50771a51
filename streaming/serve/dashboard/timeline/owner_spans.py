"""Who owned each queue of a group in which part of a period, and whose owner changed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streaming.queries.results import Interval
from streaming.serve.dashboard.timeline.group_history import History

Place = tuple[str, str, int]
"""Topic, broker and id of a queue."""


class OwnerSpan(NamedTuple):
    """A part of a period in which a queue had one owner, or none."""

    begin: int
    """Milliseconds since the begin of the period."""
    end: int
    client_id: str | None
    """None: it was unassigned."""


def owner_spans(history: History, until: int) -> Mapping[Place, Sequence[OwnerSpan]]:
    """Return the spans of each queue; none before its first owner, unless it was unassigned when the period began.

    Args:
        history: the history of the period.
        until: the end of what is known of it, epoch milliseconds.
    """
    intervals: dict[Place, list[Interval]] = defaultdict(list)
    for interval in history.intervals:
        intervals[interval.topic, interval.broker, interval.queue_id].append(interval)
    window = history.window.since, min(history.window.until, until)
    return {
        place: _spans(intervals.get(place, []), window, was_unassigned=place in history.unassigned)
        for place in {*intervals, *history.unassigned}
    }  # fmt: skip


def has_moved(spans: Sequence[OwnerSpan]) -> bool:
    """Return whether a queue has, or had for a time, another owner than at first, or none."""
    return any(span.client_id != spans[0].client_id for span in spans)


def _spans(intervals: Sequence[Interval], window: tuple[int, int], *, was_unassigned: bool) -> list[OwnerSpan]:
    since, until = window
    spans: list[OwnerSpan] = []
    end: int | None = since if was_unassigned else None
    for interval in intervals:
        begin = max(interval.from_time, since)
        if end is not None and begin > end:
            spans.append(OwnerSpan(end - since, begin - since, None))
        end = min(interval.to_time if interval.to_time is not None else until, until)
        if end > begin:
            spans.append(OwnerSpan(begin - since, end - since, interval.client_id))
    if end is not None and end < until:
        spans.append(OwnerSpan(max(end, since) - since, until - since, None))
    return spans
