"""Micro-batches that have ended, as Spark reports them, with the times of their parts, measured while they ran."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from streaming.base.span import Attribute, Span
from streaming.pipeline.sources import ROWS_READ

EFFECTS: Final = "effects"
"""The name of the counts of rows that the operator's query observes."""
_BATCHES_MAX: Final = 100
"""Batches whose parts are kept until their ends are reported; as many as Spark keeps reports."""
_PLANNING: Final = ("latestOffset", "queryPlanning", "getBatch", "walCommit")
"""The parts of a batch's plan that Spark times, in milliseconds."""


@dataclass(frozen=True)
class Batch:
    """The result of one micro-batch."""

    query: str
    number: int
    rows: int
    """Rows that were read from the log."""
    effects: int | None
    """Rows that the operator derived; None for the archive."""
    milliseconds: int
    trace: Span
    """The batch with its parts."""


class BatchTimes:
    """The parts of the last batches of one query; may be used by several threads."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Span]] = {}
        self._ended = threading.Condition()

    def begin(self, batch_id: int) -> None:
        """Begin a batch, perhaps again."""
        self._parts[batch_id] = []
        for old in [known for known in self._parts if known <= batch_id - _BATCHES_MAX]:
            del self._parts[old]

    def end(self) -> None:
        """Note the end of the batch that began last, for `wait_for_end`."""
        with self._ended:
            self._ended.notify_all()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the next batch ends, so many seconds at most."""
        with self._ended:
            self._ended.wait(seconds)

    @contextmanager
    def part(self, batch_id: int, name: str, **attributes: Attribute) -> Iterator[None]:
        """Time a part of a batch; one that fails is none."""
        began = time.time_ns()
        yield
        self._parts.setdefault(batch_id, []).append(Span(name, began, time.time_ns(), attributes))

    def take(self, batch_id: int) -> list[Span]:
        """Return the parts of a batch that has ended, in the order of their starts."""
        return sorted(self._parts.pop(batch_id, []), key=lambda part: part.began_ns)


def _batch_trace(query: str, progress: StreamingQueryProgress, parts: Sequence[Span], rows: dict[str, int]) -> Span:
    """Return a batch as a span: Spark's report, with the parts that were measured, in the order of their starts."""
    durations = progress.durationMs
    began = round(datetime.fromisoformat(progress.timestamp).timestamp() * 1000) * 1_000_000
    ended = began + durations["triggerExecution"] * 1_000_000
    if parts:
        plan = {f"{name}_ms": durations[name] for name in _PLANNING if name in durations}
        work_began, work_ended = parts[0].began_ns, max(part.ended_ns for part in parts)
        ended = max(ended, work_ended)  # Spark's times are whole milliseconds
        parts = (Span("plan", began, work_began, plan), *parts, Span("commit", work_ended, ended))
    return Span(f"{query} batch", began, ended, {"batch": progress.batchId, **rows}, tuple(parts))


def ended_batches(query: StreamingQuery, times: BatchTimes | None, *, after: int) -> Iterable[Batch]:
    """Yield the batches with rows that ended after a batch id."""
    for progress in query.recentProgress:
        observed = progress.observedMetrics
        if progress.batchId > after and ROWS_READ in observed:
            effects = observed[EFFECTS]["rows"] if EFFECTS in observed else None
            rows = {"rows": observed[ROWS_READ]["rows"]} | ({} if effects is None else {"effects": effects})
            yield Batch(
                query=query.name,
                number=progress.batchId,
                rows=observed[ROWS_READ]["rows"],
                effects=effects,
                milliseconds=progress.durationMs["triggerExecution"],
                trace=_batch_trace(query.name, progress, [] if times is None else times.take(progress.batchId), rows),
            )
